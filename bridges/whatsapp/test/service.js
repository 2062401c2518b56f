// The WhatsApp of the tests: accepts the fake connections of bridges on a Unix socket, keeps messages until a bridge has taken
// them, and records what bridges send.

import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { once } from 'node:events';

export const ME = '4915112345678@s.whatsapp.net';
export const MY_LID = '900000000001@lid';
export const ANN = '4917011111111@s.whatsapp.net';
export const GROUP = '120363000000000001@g.us';

export class Service {
  #server;
  #sockets = new Set();
  #undelivered = new Map();
  #waiters = [];
  sent = [];
  calls = [];
  groups = { [GROUP]: { subject: 'Family', participants: [{ id: ANN }, { id: ME }], desc: 'All of us' } };
  files = new Map();
  open = true; // answer a new connection with `open`
  failSends = 0;
  holdSends = false;
  connections = 0;
  taken = 0; // messages that bridges took, those they took again included

  static async start() {
    const service = new Service();
    service.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'bridge-test-'));
    service.path = path.join(service.folder, 'service.sock');
    service.#server = net.createServer((socket) => service.#accept(socket));
    service.#server.listen(service.path);
    await once(service.#server, 'listening');
    return service;
  }

  async stop() {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    fs.rmSync(this.folder, { recursive: true, force: true });
  }

  // Queues a message and passes it to the bridges that are connected.
  deliver(message) {
    this.#undelivered.set(`${message.key.id}|${this.#undelivered.size}`, message);
    for (const socket of this.#sockets) this.#pass(socket);
  }

  // Passes an event to every bridge.
  emit(event) {
    for (const socket of this.#sockets) write(socket, { event });
  }

  get undelivered() {
    return this.#undelivered.size;
  }

  // Resolves when the condition holds; it is looked at after everything a bridge says.
  async until(condition) {
    if (condition()) return;
    await new Promise((resolve) => {
      this.#waiters.push({ condition, resolve });
    });
  }

  #accept(socket) {
    this.#sockets.add(socket);
    this.connections += 1;
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => {});
    const lines = readline.createInterface({ input: socket });
    lines.on('error', () => {});
    lines.on('line', (line) => {
      this.#hear(socket, JSON.parse(line));
      this.#waiters = this.#waiters.filter(({ condition, resolve }) => !condition() || resolve());
    });
    if (this.open)
      write(socket, {
        event: { type: 'open', self: { id: '4915112345678:7@s.whatsapp.net', lid: '900000000001:7@lid', name: 'Me' } },
      });
    this.#pass(socket);
  }

  #pass(socket) {
    for (const [tag, message] of this.#undelivered) write(socket, { event: { type: 'messages', messages: [message] }, tag });
  }

  #hear(socket, said) {
    if (said.took) {
      this.#undelivered.delete(said.took);
      this.taken += 1;
      return;
    }
    this.calls.push(said);
    const reply = (value) => write(socket, { reply: said.call, value });
    const fail = (error) => write(socket, { reply: said.call, error });
    switch (said.name) {
      case 'send':
        if (this.failSends > 0) {
          this.failSends -= 1;
          fail('Connection Closed');
          return;
        }
        this.sent.push(said.arguments);
        if (!this.holdSends)
          reply({ key: { remoteJid: said.arguments.chat, id: said.arguments.id, fromMe: true }, message: { conversation: 'x' } });
        break;
      case 'group':
        if (this.groups[said.arguments.chat]) reply(this.groups[said.arguments.chat]);
        else fail('item-not-found');
        break;
      case 'download': {
        const file = this.files.get(said.arguments.id);
        if (file === 'hold') return;
        if (file === undefined) fail('Not found');
        else reply(file.toString('base64'));
        break;
      }
      case 'pairingCode':
        reply('ABCD1234');
        break;
      case 'connected':
      case 'retry':
        break;
      default:
        reply(null);
    }
  }
}

function write(socket, value) {
  socket.write(`${JSON.stringify(value)}\n`);
}

let next = 0;

// Returns a text message as the library reports it.
export function text(body, fields = {}) {
  next += 1;
  const { from = ANN, id = `MSG${next}`, content, key, ...rest } = fields;
  return {
    key: { remoteJid: from, id, fromMe: false, ...key },
    pushName: 'Ann',
    messageTimestamp: 1763560000 + next,
    message: content ?? { conversation: body },
    ...rest,
  };
}
