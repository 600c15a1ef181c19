"""The official OpenAI clients, with our server as their base URL."""

import openai


def sync_client(url: str, key: str = "local") -> openai.OpenAI:
    http_client = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, http_client=http_client, max_retries=0)


def async_client(url: str, key: str = "local") -> openai.AsyncOpenAI:
    http_client = openai.DefaultAsyncHttpxClient(trust_env=False)
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, http_client=http_client, max_retries=0)
