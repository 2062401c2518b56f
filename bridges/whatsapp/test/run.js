// Starts the real bridge with the fake connection and talks to it as its consumer does.

import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import readline from 'node:readline';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const HERE = path.dirname(fileURLToPath(import.meta.url));
export const BRIDGE = path.join(HERE, '..', 'bridge.js');

export class Run {
  lines = [];
  errors = '';
  #waiters = [];

  // Starts a bridge. `home` keeps the session and the queue between runs.
  constructor(service, { home = path.join(service.folder, 'home'), args = [], env = {}, linked = true, stdin } = {}) {
    this.home = home;
    this.session = path.join(home, 'session');
    fs.mkdirSync(this.session, { recursive: true });
    if (linked)
      fs.writeFileSync(path.join(this.session, 'creds.json'), '{"me":{"id":"4915112345678:7@s.whatsapp.net"},"account":{}}');
    this.child = spawn(
      process.execPath,
      [BRIDGE, '--port', '0', '--session', this.session, ...(stdin ? ['--stdin'] : []), ...args],
      {
        env: {
          PATH: process.env.PATH,
          HERMES_WHATSAPP_SOCKET_MODULE: path.join(HERE, 'fake-socket.js'),
          FAKE_WHATSAPP: service.path,
          WHATSAPP_MODE: 'bot',
          ...env,
        },
        stdio: [stdin ? 'pipe' : 'ignore', 'pipe', 'pipe'],
      },
    );
    if (typeof stdin === 'string') this.child.stdin.write(stdin);
    this.exited = once(this.child, 'exit').then(([code, signal]) => {
      this.#settle();
      return { code, signal };
    });
    this.child.stderr.setEncoding('utf8').on('data', (chunk) => {
      this.errors += chunk;
    });
    readline.createInterface({ input: this.child.stdout }).on('line', (line) => {
      this.lines.push(JSON.parse(line));
      this.#settle();
    });
  }

  // Starts a bridge and resolves when it is connected.
  static async connected(service, options) {
    const run = new Run(service, options);
    run.port = (await run.line('listening')).port;
    await run.line('connected');
    return run;
  }

  // Resolves with the first line of an event, or the one after `skip` others. Fails if the bridge ends without it.
  async line(event, skip = 0) {
    for (;;) {
      const found = this.lines.filter((line) => line.event === event)[skip];
      if (found) return found;
      if (this.child.exitCode !== null || this.child.signalCode !== null)
        throw new Error(`no ${event} line: ${JSON.stringify(this.lines)} ${this.errors}`);
      await new Promise((resolve) => {
        this.#waiters.push(resolve);
      });
    }
  }

  #settle() {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }

  // Sends a request and resolves with { status, body, headers }.
  async request(method, target, body, headers = {}) {
    const raw = typeof body === 'string' || Buffer.isBuffer(body) ? body : body === undefined ? undefined : JSON.stringify(body);
    const request = http.request({
      host: '127.0.0.1',
      port: this.port,
      method,
      path: target,
      agent: false,
      headers: { ...(raw === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    });
    request.end(raw);
    const [response] = await once(request, 'response');
    let text = '';
    for await (const chunk of response.setEncoding('utf8')) text += chunk;
    return { status: response.statusCode, body: text === '' ? undefined : JSON.parse(text), headers: response.headers };
  }

  get(target, headers) {
    return this.request('GET', target, undefined, headers);
  }

  post(target, body, headers) {
    return this.request('POST', target, body, headers);
  }

  // Resolves with at least `count` messages that wait, without taking them.
  async waiting(count = 1) {
    for (;;) {
      const { body } = await this.get('/messages?ack=1&wait=30');
      if (body.length >= count) return body;
    }
  }

  kill(signal = 'SIGKILL') {
    this.child.kill(signal);
    return this.exited;
  }
}
