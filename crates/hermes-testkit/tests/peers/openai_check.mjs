// Asks the scripted server through the official OpenAI SDK for Node, the stricter reader of chat streams.
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';

const require = createRequire(process.env.HERMES_PEERS + '/openai-js/');
const { OpenAI } = require('openai');
const client = new OpenAI({ baseURL: process.argv[2] + '/v1', apiKey: 'k', maxRetries: 0 });
const chat = (content) => ({ model: 'peer-model', messages: [{ role: 'user', content }] });

assert.deepEqual((await client.models.list()).data.map((m) => m.id), ['peer-model']);
const hello = await client.chat.completions.stream(chat('say hello')).finalMessage();
assert.equal(hello.content, 'Hello wörld 日本');
const called = await client.chat.completions.stream(chat('call a tool')).finalMessage();
assert.deepEqual(called.tool_calls.map((c) => JSON.parse(c.function.arguments)), [{ city: 'Zürich' }, { zone: 'UTC' }]);
const response = await client.responses.stream({ model: 'peer-model', input: 'say hello' }).finalResponse();
assert.equal(response.output_text, 'Hello wörld 日本');
const calls = await client.responses.stream({ model: 'peer-model', input: 'call a tool' }).finalResponse();
assert.deepEqual(calls.output.filter((i) => i.type === 'function_call').map((i) => i.call_id), ['call_a', 'call_b']);
await assert.rejects(client.chat.completions.create(chat('be limited')), { status: 429 });
console.log('openai node all well');
