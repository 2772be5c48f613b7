"""Make what internal/chat is held against: templates rendered by Jinja, set up as transformers does it.

goldens_chat.py

Writes internal/chat/testdata/goldens.json: variables by name, and templates
with what each gives for them, or that it is an error. The templates are in
the style of well-known chat models and of every feature by itself.
"""
import datetime, json, os
from transformers.utils import chat_template_utils

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "internal", "chat", "testdata", "goldens.json")
NOW = datetime.datetime(2026, 3, 5, 7, 8, 9)

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a \"place\" <now>", "parameters": {
        "type": "object", "properties": {"place": {"type": "string", "description": "città"}, "unit": {"type": "string", "enum": ["c", "f"]}},
        "required": ["place"]}}},
    {"type": "function", "function": {"name": "add", "description": "Adds", "parameters": {
        "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}},
]
U = lambda c: {"role": "user", "content": c}
A = lambda c: {"role": "assistant", "content": c}
S = lambda c: {"role": "system", "content": c}
CALLS = [{"type": "function", "id": "call12345", "function": {"name": "get_weather", "arguments": {"place": "Łódź", "unit": None, "days": 2, "exact": True, "t": 1.5}}}]
TALKS = {
    "one": dict(messages=[U("Hi <b> & \"you\" 'there'")]),
    "system": dict(messages=[S("  Be brief.\n"), U("What is 2+2?")]),
    "turns": dict(messages=[S("You are kind."), U(" Hello "), A("Hi!\n"), U("naïve 日本語 🙂 ß İ"), A("<think>\nlong thought\n</think>\n\nAnswer."), U("Thanks")]),
    "ends with answer": dict(messages=[U("a"), A("b")]),
    "tools": dict(messages=[S("Use tools."), U("Weather in Łódź?"), {"role": "assistant", "content": "", "tool_calls": CALLS},
                            {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "{\"t\": 21}"}, A("It is 21."), U("And add 1 and 2")], tools=TOOLS),
    "two tool answers": dict(messages=[U("x"), {"role": "assistant", "content": None, "tool_calls": CALLS * 2},
                                       {"role": "tool", "content": "1", "tool_call_id": "call12345"}, {"role": "tool", "content": {"a": [1, None]}, "tool_call_id": "call12345"}], tools=TOOLS[:1]),
    "wrong order": dict(messages=[U("a"), U("b")]),
    "parts": dict(messages=[{"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image"}, {"type": "text", "text": "here"}]}]),
    "thinking": dict(messages=[U("q"), {"role": "assistant", "content": "r", "reasoning_content": "because"}, U("more")], enable_thinking=False),
    "empty": dict(messages=[]),
}
VARIABLES = {}
for name, talk in TALKS.items():
    for add in (False, True):
        VARIABLES[name + (" +" if add else "")] = {**talk, "add_generation_prompt": add, "bos_token": "<s>", "eos_token": "</s>"}
SMALL = dict(s="Hello World", t="  spaced \n", u="naïve 日本語 🙂", e="", n=7, z=0, f=2.5, big=1e20, tiny=1e-7, yes=True, no=False, nil=None,
             l=[3, 1, 2], w=["b", "A", "c", "a"], d={"b": 1, "a": "x", "C": None, "items": 5}, ms=TALKS["turns"]["messages"], nested={"a": {"b": [10, {"c": "deep"}]}},
             people=[{"name": "Bo", "age": 5, "tags": ["x"]}, {"name": "al", "age": 3, "tags": []}, {"name": "Cy", "age": 5}], tools=TOOLS)
VARIABLES["small"] = SMALL

MODELS = {}
MODELS["smollm2"] = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
MODELS["chatml"] = "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
MODELS["llama2"] = """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""
MODELS["llama3"] = """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"""
MODELS["llama3 tools"] = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- Take the system message out, for it to be moved. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}

{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\\n\\n"}}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}

{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
{%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {{- 'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.' }}
    {{- "Do not use variables.\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}

{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
MODELS["mistral"] = """{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"""
MODELS["mistral tools"] = """{%- if messages and messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is defined and tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
"""
MODELS["gemma"] = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}"""
MODELS["gemma3"] = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""
QWEN_TOOLS = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\nYou are provided with function signatures within <tools></tools> XML tags:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\nReturn <tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
"""
MODELS["qwen2.5"] = QWEN_TOOLS + """{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
MODELS["qwen3"] = QWEN_TOOLS + """{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
MODELS["phi3"] = """{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"""
MODELS["deepseek"] = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is none %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls']%}{%- if not ns.is_first %}{{'<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] + '\\n' + '```json' + '\\n' + tool['function']['arguments']|tojson + '\\n' + '```' + '<｜tool▁call▁end｜>'}}{%- set ns.is_first = true -%}{%- else %}{{'\\n' + '<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁call▁end｜>'}}{{'<｜tool▁calls▁end｜><｜end▁of▁sentence｜>'}}{%- endif %}{%- endfor %}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}{%- if ns.is_tool %}{{'<｜tool▁outputs▁end｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>' ~ message['content'] ~ '<｜tool▁output▁end｜>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\\n<｜tool▁output▁begin｜>' ~ message['content'] ~ '<｜tool▁output▁end｜>'}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<｜tool▁outputs▁end｜>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜>'}}{% endif %}"""
MODELS["zephyr"] = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""
MODELS["command-r"] = """{{ bos_token }}{%- macro json_to_python_type(json_spec) %}
{%- set basic_type_map = {
    "string": "str",
    "number": "float",
    "integer": "int",
    "boolean": "bool"
} %}
{%- if basic_type_map[json_spec.type] is defined %}
    {{- basic_type_map[json_spec.type] }}
{%- elif json_spec.type == "array" %}
    {{- "List[" +  json_to_python_type(json_spec.items) + "]"}}
{%- elif json_spec.type is iterable %}
    {{- "Union[" }}
    {%- for t in json_spec.type %}
      {{- json_to_python_type({"type": t}) }}
      {%- if not loop.last %}{{- "," }}{% endif %}
    {%- endfor %}
    {{- "]" }}
{%- else %}
    {{- "Any" }}
{%- endif %}
{%- endmacro %}
{%- macro old_tool_parser(tools) %}
{%- for tool in tools %}
    {%- if loop.index0 != 0 %}{{- '\\n\\n' }}{% endif %}
    {{- '```python\\ndef ' + tool.function.name + '(' }}
    {%- for param_name, param_fields in tool.function.parameters.properties|items %}
        {%- if loop.index0 != 0 %}{{- ', '}}{% endif %}
        {{- param_name + ": " }}
        {%- if not param_name in tool.function.parameters.required %}{{- 'Optional[' + json_to_python_type(param_fields) + '] = None'}}{%- else %}{{- json_to_python_type(param_fields) }}{% endif %}
    {%- endfor %}
    {{- ') -> List[Dict]:\\n    \"\"\"'}}
    {{- tool.function.description }}
    {{- '\"\"\"\\n    pass\\n```' }}
{%- endfor %}
{%- endmacro %}
{%- set loop_messages = messages %}{%- set system_message = 'You are Command-R.' %}
{%- if messages and messages[0]['role'] == 'system' %}{%- set loop_messages = messages[1:] %}{%- set system_message = messages[0]['content'] %}{%- endif %}
<|START|><|SYSTEM|>{{ system_message }}
{% if tools %}{{ old_tool_parser(tools) }}{% endif %}

{%- for message in loop_messages %}
    {%- set content = message['content'] %}
    {%- if message.role == 'user' -%}
        <|USER|>{{ content.strip() }}<|END|>
    {%- elif message.role == 'assistant' -%}
        <|CHATBOT|>{% generation %}{{ content|default('', true)|trim }}{% for c in message.tool_calls or [] %}Action: {{ [{"tool_name": c.function.name, "parameters": c.function.arguments}]|tojson(indent=2) }}{% endfor %}{% endgeneration %}<|END|>
    {%- elif message.role == 'tool' -%}
        <results>{{ loop.index0 }}: {% if content is mapping %}{% for k, v in content.items() %}{{ k }}={{ v }};{% endfor %}{% else %}{{ content }}{% endif %}</results>
    {%- endif -%}
{%- endfor -%}
{% if add_generation_prompt %}<|CHATBOT|>{% endif %}"""
MODELS["parts"] = """{%- macro render_content(content) -%}
  {%- if content is string -%}{{ content }}
  {%- elif content is none -%}
  {%- else -%}
    {%- for part in content if part.type != 'skip' -%}
      {%- if part.type == 'image' or 'image' in part -%}<|image|>{%- elif 'text' in part -%}{{ part.text }}{%- endif -%}
      {%- if not loop.last %} {% endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro -%}
{%- for message in messages -%}
[{{ message.role|upper }}|{{ loop.index }}/{{ loop.length }}|{{ loop.previtem.role if loop.previtem is defined else '-' }}|{{ loop.nextitem.role if loop.nextitem else '-' }}]{{ render_content(message.content) }}
{% else -%}
nothing
{% endfor -%}
{%- if add_generation_prompt %}[ASSISTANT]{% endif %}"""
MODELS["granite-like"] = """{%- set ns = namespace(found=false, text='') %}
{%- for message in messages if not ns.found %}
{%- if message.role == 'system' %}{% set ns.found = true %}{% set ns.text = message.content | trim %}{% endif %}
{%- endfor %}
{%- if not ns.found %}{% set ns.text = "Knowledge Cutoff Date: April 2024.\\nToday's Date: " + strftime_now('%B %d, %Y') + "." %}{% endif %}
<|role|>system<|end|>{{ ns.text }}
{% for message in messages %}
    {% if message.role == 'system' %}{% continue %}{% endif %}
    {% if loop.index > 5 %}{% break %}{% endif %}
    <|role|>{{ message.role }}<|end|>{{ message.content }}
{% endfor %}
{% if tools %}
<|tools|>{{ tools | map(attribute='function') | map(attribute='name') | join(', ') }} {{ tools|tojson(indent=2, separators=(',', ':')) }}
{% endif %}
"""

SNIPPETS = r'''
text only
{{ s }}
{{s}}{{ e }}{{nil}}{{yes}}{{no}}{{n}}{{f}}{{big}}{{tiny}}{{ missing }}
{{ 1 }} {{ 1.0 }} {{ 1.50 }} {{ 1e3 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 123456789.125 }} {{ 1_000 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1.5e-10 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}
{{ yes + 1 }} {{ -yes }} {{ +n }} {{ - n }} {{ not n }} {{ not z }} {{ not not e }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ missing ~ [1, 'x'] }}
{{ 'ab' * 3 }}|{{ 3 * 'ab' }}|{{ 'ab' * -1 }}|{{ [1, 2] * 2 }}|{{ [1] + [2, 'x'] }}|{{ (1,) + (2,) }}
{{ [1] + (2,) }}
{{ 'it''s' "joined" }} {{ "it's" }} {{ 'say "x"' }} {{ ["it's", 'say "x"', 'both \' and "', 'tab\t nl\n back\\ \x01 \x7f é \u200b 日'] }}
{{ '\n|\t|\\|\'|\"|\x41|\u00e9|\U0001F642|\101|\q|' }}
{{ [1, 2.0, none, true, 'x', [], {}, (), (1,), {'a': 1, 2: 'b', none: 3}] }}
{{ {'a': {'b': [1, 2]}}['a']['b'][1] }} {{ {'a': 1}.a }} {{ d.b }} {{ d['a'] }} {{ d.get('b') }} {{ d.get('zz') }} {{ d.get('zz', 9) }} {{ d.zz }}
{{ d.items() }} {{ d['items'] }} {{ d.keys() }} {{ d.values() }} {{ d.keys()|list }} {{ d.items()|length }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for k, v in d|items %}{{ k }}{% endfor %} {% for k, v in d|dictsort %}{{ k }}{% endfor %}
{{ d.missing.more }}
{{ missing.more }}
{{ missing['more'] }}
{{ missing() }}
{{ missing + 1 }}
{{ missing < 1 }}
{{ missing == missing }} {{ missing == none }} {{ missing is defined }} {{ missing is undefined }} {{ missing|default('d') }} {{ e|default('d') }} {{ e|default('d', true) }} {{ e|d('d', boolean=true) }} {{ missing|length }} {{ missing|list }} {{ 'x' in missing }} {% for x in missing %}x{% else %}none{% endfor %}
{{ none.foo }}|{{ n.foo }}|{{ l.foo }}|{{ s.foo }}|{{ l[10] }}|{{ s[99] }}|{{ l['x'] }}
{{ none.foo.bar }}
{{ none() }}
{{ n() }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[5:] }} {{ l[-2:] }} {{ l[2:0:-1] }} {{ l.0 }} {{ l[true] }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[::3] }} {{ u[2] }} {{ u[2:6] }} {{ u[-1] }} {{ u[::-1] }} {{ s[6:][:2] }} {{ s[100:] }} {{ (1, 2, 3)[1:] }} {{ s[-100:100] }} {{ s[8:2:-2] }}
{{ l[::0] }}
{{ n[0:1] }}
{{ n[0] }}
{{ 1 < 2 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 'a' != 'b' }} {{ none == none }} {{ [1] == [1.0] }} {{ {'a': 1} == {'a': 1} }} {{ (1,) == [1] }} {{ 2 >= 2 }} {{ 2 <= 1 }} {{ 1 != 1 }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ {} < {} }}
{{ 'ell' in s }} {{ 'x' not in s }} {{ 2 in l }} {{ 'a' in d }} {{ 'zz' in d }} {{ 1 in (1, 2) }} {{ not 1 in l }} {{ '' in '' }} {{ none in [none] }} {{ 'b' in d.keys() }} {{ 3 in range(5) }}
{{ 1 in 'abc' }}
{{ 1 in 1 }}
{{ yes and 'x' }} {{ no and 'x' }} {{ e or 'y' }} {{ no or nil or z }} {{ yes and no or 'z' }} {{ [] or {} or 'q' }}
{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' }} [{{ 'a' if no }}] {{ 1 if no else 2 if no else 3 }} {{ ('x' if yes else 'y') ~ 'z' }}
{% if n > 5 %}big{% elif n > 2 %}mid{% else %}small{% endif %} {% if no %}a{% elif yes %}b{% endif %} {% if e %}x{% else %}y{% endif %}{% if 0.0 %}x{% endif %}{% if [] %}x{% endif %}{% if {} %}x{% endif %}{% if ' ' %}sp{% endif %}
{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.cycle('a', 'b') }} {{ loop.previtem }}-{{ loop.nextitem }};{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.last }} {% else %}none{% endfor %}
{% for x in l if x > 100 %}x{% else %}none{% endfor %}
{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}{{ b }} {% endfor %} {% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}x{% endfor %}
{% for x in n %}x{% endfor %}
{% for x in none %}x{% endfor %}
{% for c in u %}{{ c }}|{% endfor %}
{% for i in range(5) %}{{ i }}{% endfor %} {% for i in range(2, 5) %}{{ i }}{% endfor %} {% for i in range(10, 0, -3) %}{{ i }}{% endfor %} {{ range(3) }} {{ range(3)|list }} {{ range(10)[2] }} {{ range(10)[2:4] }} {{ range(0)|length }}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in [1, 2] %}{% for j in [1, 2] %}{{ i }}{{ j }}{{ loop.index }} {% if j == 1 and i == 2 %}{% break %}{% endif %}{% endfor %}{{ loop.index }}{% endfor %}
{% for x in l %}{% set y = x %}{% endfor %}[{{ y }}] {% set q = 1 %}{% for x in l %}{% set q = q + x %}{{ q }}{% endfor %}{{ q }} {% if yes %}{% set r = 5 %}{% endif %}{{ r }}
{% set ns = namespace(a=1) %}{% for x in l %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }} {{ ns.b }} {% set ns.b = 'x' %}{{ ns.b }} {{ ns['a'] }} {{ ns }} {% set m = namespace({'k': 2}, j=3) %}{{ m.k }}{{ m.j }}
{% set ns.a = 1 %}
{% set d.x = 1 %}
{% set ns = namespace(_x=1) %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set t2 = 1, 2 %}{{ t2 }} {% set (a, b) = (b, a) %}{{ a }}{{ b }}
{% set a, b = 1 %}
{% set x %}block {{ n }} {% set inner = 1 %}{% endset %}[{{ x }}][{{ inner }}] {% set y | upper | trim %} abc {% endset %}[{{ y }}]
{% with a = 1, b = n %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}[{{ a }}{{ c }}]
{% filter upper %}abc {{ s }}{% endfilter %} {% filter replace('a', 'b') | title %}aaa x{% endfilter %}
{% macro f(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(1, c='y') }}{{ f(b=5, a=4) }}{{ f() }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}
{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f('q') }}
{% macro f(a=1, b) %}{% endmacro %}
{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}
{% macro fact(k) %}{% if k <= 1 %}1{% else %}{{ k * (fact(k - 1) | int) }}{% endif %}{% endmacro %}{{ fact(5) }}
{% macro box(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call box('b') %}in {{ n }}{% endcall %} {% macro each(xs) %}{% for x in xs %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(v) each(l) %}[{{ v }}]{% endcall %}
{% macro g() %}{{ later }}{% endmacro %}{% set later = 'late' %}{{ g() }}{% macro h() %}{% set later = 'own' %}{{ later }}{% endmacro %}{{ h() }}{{ later }}
{% set f2 = f3 %}{% macro f3() %}x{% endmacro %}{{ f3() ~ f3() }}{{ f3() | upper }}{% if f3() == 'x' %}eq{% endif %}
{% generation %}a{% set g = 1 %}{{ n }}{% endgeneration %}[{{ g }}]
{% raw %}{{ not }} {% if %} {# x #}{% endraw %} {%- raw -%}  x  {%- endraw -%}  y
{# comment #}a{#- c -#} b
a {%- if yes %} b {%- endif %} c {{- 1 -}} d
x   {%- set a = 1 -%}   y
  {{ n }}  
{{ s|upper }} {{ s|lower }} {{ 'hELLO wORLD-foo bar'|title }} {{ 'hELLO'|capitalize }} {{ t|trim }}| {{ 'xxaxx'|trim('x') }} {{ n|upper }} {{ u|upper }} {{ 'ß ŉ ﬁ'|upper }} {{ 'ΑΣ ΣΑ İ'|lower }}
{{ s|length }} {{ u|length }} {{ l|count }} {{ d|length }} {{ range(4)|length }}
{{ n|length }}
{{ s|replace('l', 'L') }} {{ s|replace('l', 'L', 1) }} {{ s|replace('', '-') }} {{ 'aaa'|replace('aa', 'b') }} {{ n|replace(7, 8) }}
{{ l|join }} {{ l|join(', ') }} {{ people|join(',', attribute='name') }} {{ s|join('-') }} {{ [1, none, true, 'x']|join('|') }} {{ d|join('+') }}
{{ d|tojson }} {{ nested|tojson(indent=2) }} {{ [1, 2.5, none, true, 'é"\\\n\t\x01<>&\''] | tojson }} {{ 'é日🙂'|tojson(ensure_ascii=true) }} {{ d|tojson(sort_keys=true) }}
{{ {'b': 1, 'a': [1, {}]}|tojson(sort_keys=true, indent=1) }} {{ [1, 2]|tojson(separators=(',', ':')) }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ []|tojson(indent=4) }} {{ {}|tojson(indent=4) }} {{ (1, 2)|tojson }} {{ big|tojson }} {{ [[], [[]]]|tojson(indent=0) }} {{ [1]|tojson(indent='--') }} {{ [1]|tojson(indent=none) }}
{{ missing|tojson }}
{{ range(3)|tojson }}
{{ d.items()|tojson }}
{{ l|map('string')|tojson }}
{{ tools|tojson(indent=4) }}
{{ l|first }} {{ l|last }} {{ s|first }} {{ u|last }} {{ []|first }}| {{ d|first }} {{ []|last }}|
{{ n|first }}
{{ l|select('odd')|last }}
{{ s|list }} {{ l|list }} {{ d|list }} {{ (1, 2)|list }} {{ n|string ~ 'x' }} {{ nil|string }} {{ l|string }}
{{ n|list }}
{{ '42'|int }} {{ '42.7'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 3.9|int }} {{ -3.9|int }} {{ '0x1f'|int(base=16) }} {{ ' 12 '|int }} {{ nil|int }} {{ yes|int }} {{ '1_000'|int }} {{ '-5'|int }} {{ ''|int(default=3) }} {{ '1e3'|int }}
{{ missing|int }}
{{ '1.5'|float }} {{ 'x'|float }} {{ 3|float }} {{ 'x'|float(2.5) }} {{ '1e3'|float }} {{ nil|float }} {{ 'inf'|float }}
{{ -5|abs }} {{ -2.5|abs }} {{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42.55|round(1, 'floor') }} {{ 42.51|round(1, 'ceil') }} {{ 7|round }} {{ 1234.5|round(-2) }} {{ 42.4|round|int }}
{{ s|abs }}
{{ l|sort }} {{ w|sort }} {{ w|sort(case_sensitive=true) }} {{ l|sort(reverse=true) }} {{ people|sort(attribute='age')|map(attribute='name')|list }} {{ people|sort(attribute='age,name')|map(attribute='name')|list }} {{ people|sort(reverse=true, attribute='age')|map(attribute='name')|join(' ') }}
{{ [1, 'a']|sort }}
{{ [1, 1.0, true, 2, 'a', 'A', (1,), (1,)]|unique|list }} {{ w|unique(case_sensitive=true)|list }} {{ people|unique(attribute='age')|map(attribute='name')|list }}
{{ [[1]]|unique|list }}
{{ l|reverse|list }} {{ s|reverse }} {{ u|reverse }} {{ d|reverse|list }}
{{ l|map('string')|list }} {{ w|map('upper')|join }} {{ people|map(attribute='name')|list }} {{ people|map(attribute='tags')|list }} {{ people|map(attribute='tags.0', default='?')|list }} {{ people|map(attribute='zip', default='?')|list }} {{ [[1, 2], [3]]|map('length')|list }} {{ [' a ']|map('trim')|map('upper')|list }} {{ ['a']|map('replace', 'a', 'b')|list }}
{{ people|map(attribute='tags.0.x')|list }}
{{ people|map(attribute='tags')|map('first')|list }}
{{ l|map('nofilter')|list }}
{{ l|map|list }}
{{ l|select|list }} {{ [0, 1, none, 'x', '']|select|list }} {{ l|select('odd')|list }} {{ l|reject('odd')|list }} {{ l|select('>', 1)|list }} {{ l|select('in', [1, 2])|list }} {{ [1, none]|reject('none')|list }} {{ w|select('equalto', 'a')|list }}
{{ people|selectattr('age', 'equalto', 5)|map(attribute='name')|list }} {{ people|rejectattr('age', '==', 5)|map(attribute='name')|list }} {{ people|selectattr('tags')|list|length }} {{ people|selectattr('tags', 'defined')|list|length }} {{ people|rejectattr('tags', 'undefined')|list|length }} {{ ms|selectattr('role', 'in', ['user', 'system'])|map(attribute='role')|join(',') }}
{{ people|selectattr('age', 'equalto', 5)|length }}
{% if people|selectattr('age', 'equalto', 500) %}true{% endif %} {{ (people|selectattr('age', 'equalto', 5))[0] }}| {% set g = l|select %}{{ g|list }}{{ g|list }} {% set g = l|select %}{{ g|first }}{{ g|list }} {% for x in l|select %}{{ loop.length }}{{ loop.last }}{% endfor %}
{{ d|items|list }} {{ missing|items|list }} {{ d|dictsort }} {{ d|dictsort(true) }} {{ {'a': 2, 'b': 1}|dictsort(by='value') }} {{ {'a': 2, 'b': 1}|dictsort(reverse=true) }}
{{ l|items|list }}
{{ '<a href="x">&\'</a>'|e }} {{ '<b>'|safe }} {{ '<b>'|escape|length }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb\n\nc'|indent(2, first=true) }}|{{ 'a\n\nb'|indent(2, blank=true) }}|{{ 'a\nb'|indent('> ') }}|{{ ''|indent }}|{{ 'a\n'|indent(1) }}
{{ l|min }} {{ l|max }} {{ w|min }} {{ l|sum }} {{ people|sum(attribute='age') }} {{ people|max(attribute='age') }} {{ [1.5, 2]|sum }} {{ []|min }}|
{{ '%s is %d and %.2f %%'|format('x', 5, 2.345) }} {{ '%s-%s' % ('a', 1) }} {{ '%s' % n }} {{ '%r' % 'q' }}
{{ '%s %s' % 'a' }}
{{ '%d' % 'a' }}
{{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip() }}|{{ 'xyax'.strip('xy') }}|{{ 'xyax'.lstrip('x') }}|{{ 'xyax'.rstrip('x') }}|{{ '\u3000a\x1c'.strip() }}|{{ s.strip(none) }}
{{ 'a b  c '.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b c'.split(maxsplit=1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b '.rsplit(none, 1) }} {{ 'a</t>b'.split('</t>')[-1] }} {{ 'a b'.split(' ')[0] }} {{ '  a b c '.split(none, 1) }}
{{ 'a'.split('') }}
{{ s.upper() }} {{ s.lower() }} {{ "they're bill's".title() }} {{ 'hELLO'.capitalize() }} {{ s.startswith('He') }} {{ s.endswith(('x', 'd')) }} {{ s.startswith('x') }} {{ s.replace('o', '0') }} {{ s.replace('o', '0', 1) }} {{ ', '.join(['a', 'b']) }} {{ s.find('World') }} {{ u.find('🙂') }} {{ s.find('zz') }} {{ s.rfind('o') }} {{ s.count('l') }} {{ s.index('W') }}
{{ s.index('zz') }}
{{ ', '.join([1]) }}
{{ s.startswith(1) }}
{{ s.nomethod() }}
{{ 'a\nb\r\nc'.splitlines() }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('x') }} {{ 'prefix'.removeprefix('pre') }} {{ 'prefix'.removesuffix('fix') }} {{ '12'.isdigit() }} {{ 'ab'.isalpha() }} {{ 'AB'.isupper() }} {{ 'aB'.islower() }} {{ ' '.isspace() }} {{ 'a1'.isalnum() }}
{{ '{} and {}'.format('a', 1) }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x}'.format(x=5) }} {{ '{{}}'.format() }}
{{ '{} {}'.format('a') }}
{{ l.index(2) }} {{ [1, 1].count(1) }} {{ (1, 2).index(2) }}
{{ l.append(4) }}
{% set _ = l.append(4) %}
{{ d.update({'x': 1}) }}
{{ d.pop('a') }}
{{ s.__class__ }}|{{ d._x }}|{{ l.append is defined }}
{{ s.__class__.__mro__ }}
{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(3) }} {{ s is string }} {{ n is string }} {{ n is number }} {{ yes is number }} {{ d is mapping }} {{ l is mapping }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ l is sequence }} {{ d is sequence }} {{ s is sequence }} {{ n is sequence }} {{ yes is boolean }} {{ n is boolean }} {{ yes is true }} {{ n is true }} {{ no is false }} {{ nil is none }} {{ e is none }} {{ n is integer }} {{ f is float }} {{ range(3) is sequence }} {{ range is callable }} {{ missing is iterable }}
{{ n is equalto 7 }} {{ n is eq(7) }} {{ n is == 7 }}
{{ n is equalto 7 }} {{ n is eq 8 }} {{ n is in l }} {{ 2 is in l }} {{ n is ne 7 }} {{ n is gt 5 }} {{ n is lt 5 }} {{ n is ge 7 }} {{ 'A' is upper }} {{ 'a' is lower }} {{ nil is sameas none }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ n is not none }} {{ missing is not defined }} {{ not missing is defined }} {{ n is defined and s is string or no }} {{ 1 if n is defined else 2 }}
{{ s is odd }}
{{ n is nosuchtest }}
{{ n|nosuchfilter }}
{{ raise_exception('custom message') }}
{% if no %}{{ raise_exception('x') }}{% endif %}ok
{{ strftime_now('%Y-%m-%d %H:%M:%S %a %A %b %B %j %p %I %y %% %-d %-m') }}
{{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ dict([('p', 1)]) }} {{ dict() }} {{ {'a': 1, 'a': 2} }} {{ {1: 'i', 1.0: 'f'} }} {{ {(1, 2): 3}[(1, 2)] }}
{{ {[1]: 2} }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('|') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}
{{ f(*l) }}
{% macro m3(a, b, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m3(*l) }} {{ m3(1, *[2, 3]) }} {{ m3(**{'a': 1, 'b': 2, 'c': 3}) }} {{ m3(1, **{'c': 3}) }}
{{ range(1000000000) }}
{{ range('a') }}
{{ 1, 2 }} {{ (1, 2) }} {{ () }} {{ (1) }} {{ [1, 2, ] }} {{ {'a': 1, } }}
{{ -n|abs }} {{ n * -1 }} {{ 2 - -2 }} {{ not n == 7 }} {{ n == 7 and not s == 'x' }} {{ 'a' ~ 'b' == 'ab' }} {{ (1 + 2) ~ (3 + 4) }} {{ 1 * 2 ~ 3 * 4 }} {{ s|length > 3 and s|upper == 'HELLO WORLD' }} {{ 'x' + s|upper + 'y' }} {{ ms[0]['content'] + '!' }} {{ ms[-1].content|trim|length + 1 }}
{{ (l|sort)[0] }} {{ ms|map(attribute='role')|list|length }} {{ (ms|selectattr('role', 'equalto', 'user')|list)[-1].content }} {{ ms|length - 1 }} {{ nested.a.b[1].c }} {{ nested['a'].b.0 }} {{ nested.a.b[1]['c'][0] }}
{{ loop }} {{ loop is defined }}
{% for loop in l %}{% endfor %}
{% break %}
{% macro f() %}{% break %}{% endmacro %}
{% for x in l %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}
{% if yes %}
{% for x in l %}{% endif %}
{% endif %}
{% unknown %}
{% include 'x' %}
{% set %}
{% for in l %}{% endfor %}
{{ }}
{{ 1 + }}
{{ (1 }}
{{ 1) }}
{{ [1 }}
{{ 'abc }}
{{ s
{# open
{% if
{{ a b }}
{{ s | }}
{{ n is }}
{{ n is odd is even }}
{{ f(a=1, 2) }}
{{ f(a=1, a=2) }}
{% set true = 1 %}
{% set 1 = 1 %}
{{ s.1a }}
{{ s! }}
{{ n ? 1 : 2 }}
{{ x = 1 }}
{% raw %}open
{{ '\N{DASH}' if false }}ok
{{ l == [3, 1, 2] }}{% for a in [1,2,3] %}{% for b in 'xy' %}{{ a }}{{ b }}{{ loop.first }}{% endfor %}{% endfor %}
{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %} {% for x in l %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}
{% for x in ms %}{{ x.role }}{{ ':' if not loop.last else '.' }}{% endfor %}{{ ms[0] }}{{ ms[0].items()|list }}
{{ n.real is defined }}{{ 3 if }}
{% call x %}{% endcall %}
{{ [1,2,3]|last ~ [4]|first }} {{ "%s" | format(l) }} {{ l | join(d='-') }} {{ s | default(default_value='x') }} {{ s|trim(chars='Hd') }}
{{ 'a' 'b' ~ "c" }}{{ 'x' if 'a' in 'abc' and 2 > 1 else 'y' }}{{ [x for x in l] }}
{{- "a" }}   {{ "b" -}}   c
{{ l|list|tojson }}{{ w|sort|join(',')|upper|replace('A', '*') }}{{ {'k': l}|tojson }}{{ {'k': l}.k|length }}
{{ none|default('x') }}|{{ none|default('x', true) }}|{{ 0|default(5, true) }}|{{ no|default }}|{{ missing|default(none) }}
{{ none|trim }} {{ none|upper }} {{ 5|trim ~ 'x' }} {{ true|lower }}
{{ none|length }}
{{ none|join }}
{{ none + 'x' }}
{{ none|list }}
'''


def snippets():
    """One a line; those of several lines stand in MULTI."""
    return SNIPPETS.strip("\n").split("\n")


MULTI = ["{# multi\nline #}\nc", "  {% if yes %}\n    x\n  {% endif %}\n  y\n", "{% if yes +%}\nx{% endif %}", "a\n  {%+ if yes %}y{% endif %}\n\n", "\t{# c #}\n  {{ n }}  \n  z\n\n",
         "{% for x in l %}\n  - {{ x }}\n{% endfor %}\nend\n", "a\r\nb\rc\n{{ n }}\r\n", "\n\n{% set x = 1 %}\n\n  {%- if x %}\n  {{- x }}\n  {%- endif -%}  \n\n  tail  \n",
         "{{ '\\\nx' }}", "{% raw %}\n {{ x }}\n{% endraw %}\n tail", "  {% raw %} a {%- endraw +%}\nb", "{#- a -#}\n x {#+ b +#}\n y", "a {{ n }} {% if yes %} b {% endif %} c\n", "x {# c #}\ny", "{{ n }}\n{{ n }}\n{% if yes %}{{ n }}\n{% endif %}\n",
         "{% if yes -%}\n\n  a\n{%- else -%}\n b {% endif %}", "line {{\n  n\n}} {%\n if yes\n%}x{%\nendif %}", "", "\n", "{", "{ {", "}}", "{{ '}}' }}{{ '%}' }}{% if '%}' %}x{% endif %}", "{{ {'a': {'b': 1}}}}", "%}", "{{'a'}}{%if yes%}b{%endif%}", "{%- for x in l -%}\n {{ x }} \n{%- endfor -%}\n"]


def render(source, variables):
    template = chat_template_utils._compile_jinja_template(source)
    template.environment.globals["strftime_now"] = NOW.strftime
    return template.render(**chat_template_utils._plain_template_data(variables))


def result(source, variables):
    try:
        return {"want": render(source, variables)}
    except Exception as e:  # of any kind: Python's own come through Jinja as they are
        return {"error": f"{type(e).__name__}: {e}"[:80]}


def main():
    templates = []
    for name, source in MODELS.items():
        templates.append({"name": name, "source": source, "results": {v: result(source, VARIABLES[v]) for v in VARIABLES if v != "small"}})
    for i, source in enumerate(snippets() + MULTI):
        templates.append({"name": f"snippet {i}", "source": source, "results": {"small": result(source, SMALL)}})
    os.makedirs(os.path.dirname(OUT), exist_ok=True)
    with open(OUT, "w", encoding="utf-8") as f:
        json.dump({"variables": VARIABLES, "templates": templates}, f, ensure_ascii=False, indent=0)
        f.write("\n")
    errors = sum("error" in r for t in templates for r in t["results"].values())
    print(f"{len(templates)} templates, {sum(len(t['results']) for t in templates)} results, {errors} of them errors, {os.path.getsize(OUT)} bytes")


main()
