// The gateway's API through the official OpenAI SDK for Node. Arguments: base URL, key.
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';

const require = createRequire(process.env.HERMES_PEERS + '/openai-js/');
const { OpenAI } = require('openai');
const [, , baseURL, apiKey] = process.argv;
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const chat = (content) => ({ model: 'hermes-agent', messages: [{ role: 'user', content }] });

assert.deepEqual((await client.models.list()).data.map((m) => m.id), ['hermes-agent']);
assert.equal((await client.chat.completions.create(chat('say hello'))).choices[0].message.content, 'Hello wörld 日本');
const hello = await client.chat.completions.stream(chat('say hello')).finalMessage();
assert.equal(hello.content, 'Hello wörld 日本');
let words = '';
for await (const chunk of await client.chat.completions.create({ ...chat('use a tool'), stream: true })) {
  words += chunk.choices[0]?.delta?.content ?? '';
}
assert.equal(words.trim(), 'The file says hi.');
const first = await client.responses.create({ model: 'hermes-agent', input: 'say hello' });
assert.equal(first.output_text, 'Hello wörld 日本');
const second = await client.responses.create({
  model: 'hermes-agent', input: 'how many words?', previous_response_id: first.id,
});
assert.equal(second.output_text, 'Two words.');
const streamed = await client.responses.stream({ model: 'hermes-agent', input: 'say hello' }).finalResponse();
assert.equal(streamed.output_text, 'Hello wörld 日本');
await assert.rejects(client.chat.completions.create({ model: 'x', messages: [] }), { status: 400 });
await assert.rejects(client.responses.retrieve('resp_none'), { status: 404 });
const controller = new AbortController();
const stream = await client.chat.completions.create({ ...chat('talk for ever'), stream: true }, { signal: controller.signal });
for await (const chunk of stream) {
  if (chunk.choices[0]?.delta?.content) { controller.abort(); break; }
}
console.log('openai node all well');
