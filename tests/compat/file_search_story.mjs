// Vercel's AI SDK and LangChain for JavaScript search a vector store by OpenAI's tool file_search; prints one JSON object.
//
//   node file_search_story.mjs URL STORE_ID
import { createOpenAI } from "@ai-sdk/openai";
import { ChatOpenAI } from "@langchain/openai";
import { generateText, streamText } from "ai";

const [url, store] = process.argv.slice(2);
const question = "What is ground into flour?";
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "local" });
const request = {
  model: openai.responses("gpt-5"),
  prompt: question,
  tools: { file_search: openai.tools.fileSearch({ vectorStoreIds: [store] }) },
  providerOptions: { openai: { include: ["file_search_call.results"] } },
};
const answer = await generateText(request);
let streamed = "";
for await (const part of streamText(request).textStream) streamed += part;
const chat = new ChatOpenAI({
  model: "gpt-5",
  apiKey: "local",
  useResponsesApi: true,
  configuration: { baseURL: `${url}/v1` },
});
const tool = { type: "file_search", vector_store_ids: [store] };
const message = await chat.invoke(question, { tools: [tool], include: ["file_search_call.results"] });
console.log(JSON.stringify({
  "ai sdk": answer.text,
  "ai sdk stream": streamed,
  "ai sdk sources": answer.sources.map((source) => source.filename ?? source.title),
  "langchain": message.text,
}));
