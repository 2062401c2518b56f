// The HTTP service of the bridge. Invariants: it listens on 127.0.0.1 only; no request of a web page is answered; a message
// is removed from the queue only when the consumer acknowledged it or, for consumers that do not, got all of the answer.

import http from 'node:http';
import { createHash, timingSafeEqual } from 'node:crypto';
import { Refusal } from './outbound.js';
import { note, reason } from './lines.js';

export const MOST_BODY_BYTES = 1024 * 1024;
const MOST_MESSAGES = 100;
const MOST_WAIT_SECONDS = 30;
const MOST_ACKS = 1000;

// Returns a server, not listening yet. `bridge` has inbox, outbound, journal, link, options and `token` (text or undefined).
export function makeServer(bridge) {
  const handler = new Handler(bridge);
  const server = http.createServer(
    { requestTimeout: 30_000, headersTimeout: 10_000, maxHeaderSize: 16_384 },
    (request, response) => {
      handler.handle(request, response).catch((error) => {
        note(`a request failed: ${reason(error)}`);
        answer(response, 500, { error: 'internal error' });
      });
    },
  );
  server.maxConnections = 64;
  return server;
}

class Handler {
  #bridge;
  #digest;
  #handedOut = new Set(); // ids on their way to a consumer that does not acknowledge
  #startedAt = Date.now();

  constructor(bridge) {
    this.#bridge = bridge;
    this.#digest = bridge.token === undefined ? undefined : digest(bridge.token);
  }

  async handle(request, response) {
    let url;
    try {
      url = new URL(request.url, 'http://127.0.0.1');
    } catch {
      return answer(response, 400, { error: 'the path is not valid' });
    }
    // A page in a browser can reach loopback addresses; programs send neither of these.
    if (request.headers.origin !== undefined || !isLoopbackHost(request.headers.host)) {
      return answer(response, 403, { error: 'requests of web pages are refused' });
    }
    const known = this.#isAuthorized(request);
    if (url.pathname === '/health') {
      if (!isMethod(request, response, 'GET')) return undefined;
      return answer(response, 200, this.#health(known));
    }
    if (!known) return answer(response, 401, { error: 'the token is missing or wrong' });
    try {
      return await this.#route(request, response, url);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return answer(response, error.status, { error: error.message, ...error.fields });
    }
  }

  async #route(request, response, url) {
    const { outbound } = this.#bridge;
    if (url.pathname === '/messages') {
      return isMethod(request, response, 'GET') ? this.#messages(request, response, url.searchParams) : undefined;
    }
    if (url.pathname.startsWith('/chat/')) {
      if (!isMethod(request, response, 'GET')) return undefined;
      let id;
      try {
        id = decodeURIComponent(url.pathname.slice('/chat/'.length));
      } catch {
        throw new Refusal(400, 'the chat id is not valid');
      }
      return answer(response, 200, await outbound.chat(id));
    }
    const actions = {
      '/send': (body) => outbound.send(body),
      '/edit': (body) => outbound.edit(body),
      '/send-media': (body) => outbound.sendMedia(body),
      '/typing': (body) => outbound.typing(body),
      '/react': (body) => outbound.react(body),
      '/delete': (body) => outbound.remove(body),
      '/read': (body) => outbound.read(body),
      '/ack': (body) => this.#acknowledge(body),
    };
    const action = Object.hasOwn(actions, url.pathname) ? actions[url.pathname] : undefined;
    if (!action) return answer(response, 404, { error: 'no such endpoint' });
    if (!isMethod(request, response, 'POST')) return undefined;
    return answer(response, 200, await action(await readBody(request, response)));
  }

  #isAuthorized(request) {
    if (!this.#digest) return true;
    const given = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    return given !== undefined && timingSafeEqual(digest(given), this.#digest);
  }

  #health(known) {
    const { journal, link, options } = this.#bridge;
    const health = {
      status: link.connected ? 'connected' : 'disconnected',
      queueLength: journal.readyCount,
      uptime: Math.floor((Date.now() - this.#startedAt) / 1000),
    };
    if (!known) return health;
    return {
      ...health,
      contract: 2,
      pid: process.pid,
      mode: options.mode,
      pending: journal.size - journal.readyCount,
      diskFailing: journal.failing,
      ...(link.self ? { self: link.self } : {}),
      ...(link.lastDisconnect ? { lastDisconnect: link.lastDisconnect } : {}),
    };
  }

  async #messages(request, response, query) {
    const { inbox, journal } = this.#bridge;
    const seconds = Number(query.get('wait') ?? 0);
    if (!(seconds >= 0 && seconds <= MOST_WAIT_SECONDS)) {
      throw new Refusal(400, `wait must be a number of seconds up to ${MOST_WAIT_SECONDS}`);
    }
    await inbox.waitForMessage(seconds * 1000);
    if (response.destroyed || request.destroyed) return;
    if (query.get('ack') === '1') {
      answer(
        response,
        200,
        journal.peek(MOST_MESSAGES).map(({ id, message }) => ({ ackId: id, ...message })),
      );
      return;
    }
    const taken = journal
      .peek(MOST_MESSAGES + this.#handedOut.size)
      .filter(({ id }) => !this.#handedOut.has(id))
      .slice(0, MOST_MESSAGES);
    const ids = taken.map(({ id }) => id);
    ids.forEach((id) => this.#handedOut.add(id));
    const release = () => ids.forEach((id) => this.#handedOut.delete(id));
    response.once('finish', () => {
      try {
        this.#removeFromQueue(ids);
      } catch (error) {
        note(`messages stay in the queue: ${reason(error)}`);
      }
      release();
    });
    response.once('close', release);
    // A consumer of the older contract knows messages only.
    answer(
      response,
      200,
      taken.filter(({ message }) => (message.event ?? 'message') === 'message').map(({ message }) => message),
    );
  }

  #acknowledge(body) {
    const { ids } = body;
    if (!Array.isArray(ids) || ids.length > MOST_ACKS || ids.some((id) => typeof id !== 'string')) {
      throw new Refusal(400, `ids must be a list of up to ${MOST_ACKS} acknowledgement ids`);
    }
    let acknowledged;
    try {
      acknowledged = this.#removeFromQueue(ids);
    } catch (error) {
      throw new Refusal(500, reason(error));
    }
    return { success: true, acknowledged, queueLength: this.#bridge.journal.readyCount };
  }

  #removeFromQueue(ids) {
    const { journal, link, options } = this.#bridge;
    const removed = journal.acknowledge(ids);
    if (journal.size <= options.maxQueue / 2) link.resume();
    return removed;
  }
}

function digest(text) {
  return createHash('sha256').update(text).digest();
}

function isLoopbackHost(host) {
  return /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/i.test(host ?? '');
}

function isMethod(request, response, method) {
  if (request.method === method) return true;
  response.setHeader('allow', method);
  answer(response, 405, { error: `use ${method}` });
  return false;
}

async function readBody(request, response) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > MOST_BODY_BYTES) {
      response.setHeader('connection', 'close');
      throw new Refusal(413, `the body is larger than ${MOST_BODY_BYTES} bytes`);
    }
    chunks.push(chunk);
  }
  let body;
  try {
    body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)));
  } catch {
    throw new Refusal(400, 'the body is not JSON');
  }
  if (body === null || typeof body !== 'object' || Array.isArray(body)) throw new Refusal(400, 'the body must be a JSON object');
  return body;
}

function answer(response, status, value) {
  if (response.headersSent || response.destroyed) return;
  const text = JSON.stringify(value);
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
  });
  response.end(text);
}
