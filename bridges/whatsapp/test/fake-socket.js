// Takes the place of the connection to WhatsApp: passes everything to the test's service. Has the exports that
// ../baileys-socket.js describes.

import net from 'node:net';
import readline from 'node:readline';
import { once } from 'node:events';

export const delayScale = 0.002;

export async function load() {
  console.log('a library prints PRIVATE-KEY to the console');
  return { library: 'fake', version: '1' };
}

export function freeze(raw) {
  return JSON.stringify(raw);
}

export function thaw(frozen) {
  return JSON.parse(frozen);
}

export async function connect(options) {
  const socket = net.connect(process.env.FAKE_WHATSAPP);
  await once(socket, 'connect');
  const calls = new Map();
  let next = 1;
  const call = (name, values) =>
    new Promise((resolve, reject) => {
      calls.set(next, { resolve, reject });
      socket.write(`${JSON.stringify({ call: next, name, arguments: values })}\n`);
      next += 1;
    });
  socket.on('error', () => {});
  const lines = readline.createInterface({ input: socket });
  lines.on('error', () => {});
  lines.on('line', (line) => {
    const heard = JSON.parse(line);
    if (heard.event) {
      options.onEvent(heard.event);
      if (heard.event.retry)
        socket.write(`${JSON.stringify({ call: 0, name: 'retry', arguments: options.getSent(heard.event.retry) ?? null })}\n`);
      if (heard.tag) socket.write(`${JSON.stringify({ took: heard.tag })}\n`);
      return;
    }
    const { resolve, reject } = calls.get(heard.reply);
    calls.delete(heard.reply);
    if (heard.error) reject(new Error(heard.error));
    else resolve(heard.value);
  });
  socket.write(`${JSON.stringify({ call: 0, name: 'connected', arguments: { freshVersion: options.freshVersion } })}\n`);
  return {
    send: (chat, content, { id, quoted } = {}) => call('send', { chat, content, id, quoted }),
    presence: (chat, state) => call('presence', { chat, state }),
    group: (chat) => call('group', { chat }),
    read: (keys) => call('read', { keys }),
    pairingCode: (phone) => call('pairingCode', { phone }),
    download: async (raw) => {
      const data = Buffer.from(await call('download', { id: raw.key.id }), 'base64');
      return (async function* chunks() {
        for (let at = 0; at < data.length; at += 65536) yield data.subarray(at, at + 65536);
      })();
    },
    close: async () => socket.destroy(),
  };
}
