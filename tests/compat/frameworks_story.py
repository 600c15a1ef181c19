"""LiteLLM, LangChain and LlamaIndex with our server as their OpenAI; run by `test_other_clients.py` in a Python of their own.

python frameworks_story.py URL STORE_ID     prints one JSON object
"""

# pyright: basic, reportMissingImports=false
import json
import sys

import litellm
from langchain_openai import ChatOpenAI
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike

url, store = sys.argv[1] + "/v1", sys.argv[2]
question = "What is ground into flour?"
model = "gristmill:grain"

page = litellm.vector_stores.search(
    vector_store_id=store,
    query="flour",
    filters={"type": "eq", "key": "year", "value": 2020},
    max_num_results=3,
    custom_llm_provider="openai",
    api_base=url,
    api_key="local",
)
created = litellm.vector_stores.create(
    name="rye", custom_llm_provider="openai", api_base=url, api_key="local"
)
completion = litellm.completion(
    model=f"openai/{model}", messages=[{"role": "user", "content": question}], api_base=url, api_key="local"
)
chat = ChatOpenAI(model=model, base_url=url, api_key="local", stream_usage=True)
chunks = list(chat.stream(question))
# Both frameworks reach OpenAI's vector stores by the tool file_search of the Responses API.
file_search = {"type": "file_search", "vector_store_ids": [store]}
include = ["file_search_call.results"]
options = {"use_responses_api": True, "output_version": "responses/v1", "include": include}
searching = ChatOpenAI(model="any", base_url=url, api_key="local", **options).bind_tools([file_search])
response = searching.invoke(question)
call = next(block for block in response.content if block["type"] == "file_search_call")
streamed = None
for chunk in searching.stream(question):
    streamed = chunk if streamed is None else streamed + chunk
llama_options = {"built_in_tools": [file_search], "include": include}
llama = OpenAIResponses(model="gpt-4o-mini", api_base=url, api_key="local", **llama_options)
llama_response = llama.chat([ChatMessage(role="user", content=question)])
(llama_call,) = llama_response.additional_kwargs["built_in_tool_calls"]
like = OpenAILike(model=model, api_base=url, api_key="local", is_chat_model=True)
print(
    json.dumps(
        {
            "search": [result["filename"] for result in page["data"]],
            "created": created["id"],
            "litellm": completion.choices[0].message.content,
            "langchain": chat.invoke(question).content,
            "langchain stream": "".join(str(chunk.content) for chunk in chunks),
            "langchain tokens": sum((chunk.usage_metadata or {}).get("total_tokens", 0) for chunk in chunks),
            "langchain file_search": response.text,
            "langchain file_search stream": streamed.text if streamed else "",
            "langchain files": [result["filename"] for result in call["results"]],
            "langchain cited": [
                annotation["filename"]
                for block in response.content
                for annotation in block.get("annotations", ())
            ],
            "llama_index file_search": llama_response.message.content,
            "llama_index files": [result.filename for result in llama_call.results],
            "llama_index": like.chat([ChatMessage(role="user", content=question)]).message.content,
        }
    )
)
