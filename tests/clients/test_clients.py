"""The official clients against a running server, as their own documents use them. BASE_URL names it (no /v1).
Run by tools/check_api.sh; any chat model does."""
import asyncio
import json
import os

import anthropic
import litellm
import openai
import pydantic
import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

BASE = os.environ["BASE_URL"]
GREEDY = {"temperature": 0}  # newer clients of Anthropic have no argument for it
ASK = [{"role": "user", "content": "Say hello in one short sentence."}]
TOOL = {"name": "get_weather", "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                       "required": ["city", "days"], "additionalProperties": False}}


class Weather(pydantic.BaseModel):
    """Bounded, so that any model comes to an end of it."""
    city: str = pydantic.Field(max_length=20)
    days: int = pydantic.Field(ge=1, le=9)


@pytest.fixture(scope="module")
def oai():
    return openai.OpenAI(base_url=BASE + "/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def anthropic_client():
    return anthropic.Anthropic(base_url=BASE, api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def model(oai):
    return oai.models.list().data[0].id


# ---- openai --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("more", [{"max_tokens": 24}, {"max_tokens": 60, "stop": ["e"]}], ids=["cut short or not", "ended"])
def test_chat_stream_equals_whole(oai, model, more):
    whole = oai.chat.completions.create(model=model, messages=ASK, temperature=0, **more)
    with oai.chat.completions.stream(model=model, messages=ASK, temperature=0, **more) as s:
        text = "".join(e.delta for e in s if e.type == "content.delta")
        final = s.current_completion_snapshot  # the client gives no final one of an answer that was cut short
        if "stop" in more:
            final = s.get_final_completion()
            assert final.choices[0].finish_reason == "stop"
    assert text == final.choices[0].message.content == whole.choices[0].message.content
    assert final.choices[0].finish_reason == whole.choices[0].finish_reason


def test_tool_required(oai, model):
    r = oai.chat.completions.create(model=model, messages=[{"role": "user", "content": "Weather in Paris for 3 days?"}], max_tokens=120,
                                    temperature=0, tools=[{"type": "function", "function": TOOL}], tool_choice="required")
    call = r.choices[0].message.tool_calls[0]
    assert r.choices[0].finish_reason == "tool_calls" and call.function.name == "get_weather" and call.id
    assert Weather.model_validate_json(call.function.arguments)
    # the answer of the tool goes back
    r = oai.chat.completions.create(model=model, max_tokens=12, messages=[
        {"role": "user", "content": "Weather in Paris?"}, r.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"}], tools=[{"type": "function", "function": TOOL}])
    assert r.choices[0].message.content or r.choices[0].message.tool_calls


def test_tool_stream(oai, model):
    args = dict(model=model, messages=ASK, max_tokens=120, temperature=0, tools=[{"type": "function", "function": TOOL}],
                tool_choice={"type": "function", "function": {"name": "get_weather"}})
    whole = oai.chat.completions.create(**args).choices[0].message.tool_calls[0].function
    name, text = "", ""
    for c in oai.chat.completions.create(stream=True, **args):
        for t in (c.choices[0].delta.tool_calls or []) if c.choices else []:
            assert t.index == 0
            name += t.function.name or ""
            text += t.function.arguments or ""
    assert (name, text) == (whole.name, whole.arguments)


def test_parse(oai, model):
    r = oai.chat.completions.parse(model=model, messages=ASK, response_format=Weather, max_tokens=200, temperature=0)
    assert isinstance(r.choices[0].message.parsed, Weather)


def test_responses(oai, model):
    r = oai.responses.create(model=model, input="Say hello.", max_output_tokens=16, temperature=0)
    assert r.object == "response" and r.output_text and r.usage.output_tokens <= 16
    turns = [{"role": "user", "content": "Say hello."}, {"role": "assistant", "content": r.output_text}, {"role": "user", "content": "Again."}]
    assert oai.responses.create(model=model, input=turns, instructions="Be brief.", max_output_tokens=8).output_text is not None


def test_responses_stream(oai, model):
    whole = oai.responses.create(model=model, input="Say hello.", max_output_tokens=16, temperature=0).output_text
    kinds, text = [], ""
    with oai.responses.stream(model=model, input="Say hello.", max_output_tokens=16, temperature=0) as s:
        for e in s:
            kinds.append(e.type)
            if e.type == "response.output_text.delta":
                text += e.delta
    assert text == whole
    assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete")


def test_responses_parse(oai, model):
    r = oai.responses.parse(model=model, input="Weather in Oslo for 2 days, as data.", text_format=Weather, max_output_tokens=200, temperature=0)
    if r.status == "completed":
        assert isinstance(r.output_parsed, Weather)


def test_embeddings(oai, model):
    e = oai.embeddings.create(model=model, input=["one", "two"])
    assert len(e.data) == 2 and abs(sum(x * x for x in e.data[0].embedding) - 1) < 1e-3


def test_async_many(model):
    async def go():
        async with openai.AsyncOpenAI(base_url=BASE + "/v1", api_key="none", max_retries=5) as c:
            return await asyncio.gather(*(c.chat.completions.create(model=model, messages=[{"role": "user", "content": "Number %d" % i}],
                                                                    max_tokens=6, temperature=0) for i in range(12)))
    answers = [r.choices[0].message.content for r in asyncio.run(go())]
    alone = openai.OpenAI(base_url=BASE + "/v1", api_key="none")
    for i in (0, 7):
        r = alone.chat.completions.create(model=model, messages=[{"role": "user", "content": "Number %d" % i}], max_tokens=6, temperature=0)
        assert r.choices[0].message.content == answers[i]


# ---- anthropic -----------------------------------------------------------------------------------------

def test_messages(anthropic_client, model):
    r = anthropic_client.messages.create(model=model, max_tokens=16, extra_body=GREEDY, system="Be brief.", messages=ASK)
    assert r.type == "message" and r.role == "assistant" and r.content[0].type == "text" and r.content[0].text
    assert r.stop_reason in ("end_turn", "max_tokens") and r.usage.output_tokens <= 16
    n = anthropic_client.messages.count_tokens(model=model, system="Be brief.", messages=ASK).input_tokens
    assert n == r.usage.input_tokens + (r.usage.cache_read_input_tokens or 0)


def test_messages_stream(anthropic_client, model):
    whole = anthropic_client.messages.create(model=model, max_tokens=16, extra_body=GREEDY, messages=ASK)
    with anthropic_client.messages.stream(model=model, max_tokens=16, extra_body=GREEDY, messages=ASK) as s:
        text = "".join(s.text_stream)
        final = s.get_final_message()
    assert text == final.content[0].text == whole.content[0].text and final.stop_reason == whole.stop_reason


def test_messages_tool(anthropic_client, model):
    tool = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}
    r = anthropic_client.messages.create(model=model, max_tokens=120, extra_body=GREEDY, tools=[tool], tool_choice={"type": "any"},
                               messages=[{"role": "user", "content": "Weather in Rome for 2 days?"}])
    use = [b for b in r.content if b.type == "tool_use"][0]
    assert r.stop_reason == "tool_use" and Weather.model_validate(use.input)
    r = anthropic_client.messages.create(model=model, max_tokens=8, tools=[tool], messages=[
        {"role": "user", "content": "Weather in Rome?"}, {"role": "assistant", "content": [use.model_dump(include={"type", "id", "name", "input"})]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "rain"}]}])
    assert r.type == "message"


def test_messages_error(anthropic_client, model):
    with pytest.raises(anthropic.BadRequestError) as e:
        anthropic_client.messages.create(model=model, max_tokens=5, extra_body={"temperature": 9}, messages=ASK)
    assert "temperature" in str(e.value)


# ---- those that stand on them --------------------------------------------------------------------------

def test_langchain(model):
    chat = ChatOpenAI(base_url=BASE + "/v1", api_key="none", model=model, temperature=0, max_tokens=16)
    ask = [SystemMessage("Be brief."), HumanMessage("Say hello.")]
    whole = chat.invoke(ask)
    assert whole.content and whole.usage_metadata["output_tokens"] <= 16
    assert "".join(c.content for c in chat.stream(ask)) == whole.content
    assert isinstance(ChatOpenAI(base_url=BASE + "/v1", api_key="none", model=model, temperature=0, max_tokens=200)
                      .with_structured_output(Weather, method="json_schema").invoke("Weather in Oslo for 2 days."), Weather)
    assert len(OpenAIEmbeddings(base_url=BASE + "/v1", api_key="none", model=model, check_embedding_ctx_length=False).embed_query("one")) > 8


def test_litellm(model):
    args = dict(model="openai/" + model, api_base=BASE + "/v1", api_key="none", messages=ASK, max_tokens=16, temperature=0)
    whole = litellm.completion(**args).choices[0].message.content
    assert whole and "".join(c.choices[0].delta.content or "" for c in litellm.completion(stream=True, **args)) == whole
    r = litellm.completion(**{**args, "model": "anthropic/" + model, "api_base": BASE})
    assert r.choices[0].message.content


def test_error_types(oai, model):
    with pytest.raises(openai.BadRequestError) as e:
        oai.chat.completions.create(model=model, messages=ASK, temperature=-1)
    assert e.value.param == "temperature" and json.dumps(e.value.body)
