// Keeps the connection to WhatsApp: connects, reconnects after growing waits, and ends the run when WhatsApp ended the link.
// Invariant: at most one connection is open, and events of an earlier one are ignored.

import { isLinked, setAside } from './session.js';
import { note, reason, tell } from './lines.js';

export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 2,
  noLibrary: 3,
  notLinked: 4,
  refused: 5,
  pairingTimedOut: 6,
  sessionInUse: 7,
  portTaken: 8,
};

const RESTART_REQUIRED = 515;
const LOGGED_OUT = 401;
const FORBIDDEN = 403;
const TOO_OLD = 405;
const REPLACED = 440;
const LONGEST_WAIT_MS = 60_000;
const STABLE_MS = 60_000;

export class Link {
  #options;
  #module;
  #handlers;
  #connection;
  #generation = 0;
  #codeFor = -1;
  #timer;
  #failures = 0;
  #openedAt = 0;
  #freshVersion = false;
  #stopped = false;
  #paused = false;
  connected = false;
  lastConnection; // also after it closed: files can still be fetched through it
  self;
  lastDisconnect;

  // `handlers`: onMessages(messages), onOpen(), onGroup(id), onEnd(exitCode), getSent(id).
  constructor(options, module, handlers) {
    this.#options = options;
    this.#module = module;
    this.#handlers = handlers;
  }

  // Returns the open connection, or undefined.
  get connection() {
    return this.connected ? this.#connection : undefined;
  }

  start() {
    if (!this.#options.pairOnly && !isLinked(this.#options.session)) {
      tell('unlinked', { text: 'no linked phone: pair one first' });
      this.#handlers.onEnd(EXIT.notLinked);
      return;
    }
    this.#connect();
  }

  async stop() {
    this.#stopped = true;
    await this.#disconnect();
  }

  // Closes the connection until `resume`: what arrives meanwhile stays with WhatsApp.
  async pause() {
    if (this.#paused || this.#stopped) return;
    this.#paused = true;
    tell('paused', { text: 'too many messages wait; receiving stops until some are acknowledged' });
    await this.#disconnect();
  }

  resume() {
    if (!this.#paused || this.#stopped) return;
    this.#paused = false;
    tell('resumed');
    this.#connect();
  }

  async #disconnect() {
    clearTimeout(this.#timer);
    this.#generation += 1;
    this.connected = false;
    const connection = this.#connection;
    this.#connection = undefined;
    try {
      await connection?.close();
    } catch (error) {
      note(`closing the connection failed: ${reason(error)}`);
    }
  }

  #connect() {
    this.#generation += 1;
    const generation = this.#generation;
    const current = () => generation === this.#generation && !this.#stopped && !this.#paused;
    this.#module
      .connect({
        sessionFolder: this.#options.session,
        debug: this.#options.debug,
        freshVersion: this.#freshVersion,
        getSent: this.#handlers.getSent,
        onWriteError: (error) => note(`the session could not be written: ${reason(error)}`),
        onEvent: (event) => {
          // Messages count also when they arrive while the connection is being closed: their receipt is sent.
          if (event.type === 'messages') {
            // They can arrive before the connection is reported as open.
            this.self ??= event.self;
            this.#handlers.onMessages(event.messages);
          } else if (current()) this.#onEvent(event);
        },
      })
      .then((connection) => {
        if (!current()) return connection.close();
        this.#connection = connection;
        this.lastConnection = connection;
        return undefined;
      })
      .catch((error) => {
        note(`connecting failed: ${reason(error)}`);
        if (current()) this.#onEvent({ type: 'close', code: 0, text: reason(error) });
      });
  }

  #onEvent(event) {
    switch (event.type) {
      case 'qr':
        this.#onPairing(event.payload);
        break;
      case 'open':
        this.connected = true;
        this.self = event.self ?? this.self;
        this.#openedAt = Date.now();
        tell('connected', { id: this.self?.id, name: this.self?.name });
        this.#handlers.onOpen();
        break;
      case 'close':
        this.#onClose(event);
        break;
      case 'group':
        this.#handlers.onGroup(event.id);
        break;
      default:
        break;
    }
  }

  #onPairing(payload) {
    if (!this.#options.pairOnly) {
      tell('unlinked', { text: 'WhatsApp asks for a link: pair the phone again' });
      this.#handlers.onEnd(EXIT.notLinked);
      return;
    }
    if (!this.#options.pairPhone) {
      tell('qr', { payload });
      return;
    }
    // The library offers new QR codes as time passes; one code by number per connection is enough.
    if (this.#codeFor === this.#generation || !this.#connection) return;
    this.#codeFor = this.#generation;
    this.#connection
      .pairingCode(this.#options.pairPhone)
      .then((code) => tell('code', { code }))
      .catch((error) => note(`no code for this number: ${reason(error)}`));
  }

  #onClose({ code, text }) {
    this.connected = false;
    this.#connection = undefined;
    this.lastDisconnect = { code, text: reason(text), at: Math.floor(Date.now() / 1000) };
    if (code === LOGGED_OUT && this.#options.pairOnly && isLinked(this.#options.session)) {
      // The phone removed this device: its credentials are useless, and a new link must not begin with them.
      setAside(this.#options.session);
      tell('unlinked', { text: 'the old link had ended; its session was set aside' });
      this.#schedule(0, code);
    } else if (code === LOGGED_OUT) {
      tell('logged_out', { text: 'the phone removed this device: pair it again' });
      this.#handlers.onEnd(EXIT.notLinked);
    } else if (code === FORBIDDEN) {
      tell('refused', { text: 'WhatsApp refuses this account' });
      this.#handlers.onEnd(EXIT.refused);
    } else {
      if (code === TOO_OLD) this.#freshVersion = true;
      this.#schedule(this.#waitFor(code), code);
    }
  }

  #waitFor(code) {
    if (code === RESTART_REQUIRED) return 1000;
    if (this.#openedAt && Date.now() - this.#openedAt >= STABLE_MS) this.#failures = 0;
    this.#openedAt = 0;
    const first = code === REPLACED ? LONGEST_WAIT_MS / 2 : 3000;
    const wait = Math.min(first * 2 ** Math.min(this.#failures, 10), LONGEST_WAIT_MS);
    this.#failures += 1;
    return wait * (1 + Math.random() / 5);
  }

  #schedule(wait, code) {
    const scaled = wait * (this.#module.delayScale ?? 1);
    tell('disconnected', { code, text: this.lastDisconnect.text, retryMs: Math.round(scaled) });
    clearTimeout(this.#timer);
    this.#generation += 1;
    this.#timer = setTimeout(() => this.#connect(), scaled);
  }
}
