// The queue of received messages and the memory of sent ones, in one file that survives a kill at any instruction.
//
// A received message is `pending` while its file is fetched, `ready` when it can be handed out, and gone when the consumer
// acknowledged it. Its key is remembered after that, so that a message that WhatsApp delivers again is not handed out again.
// Invariants: what a method recorded is on disk when it returns; a torn last line is ignored and cut off; an
// acknowledgement id names one message for as long as the file exists, and none of an earlier file.

import fs from 'node:fs';
import path from 'node:path';
import { randomBytes } from 'node:crypto';
import { makeFolder, replaceFile } from './files.js';

const MOST_SEEN = 2000;
const MOST_SENT = 256;
const MOST_SNIPPET = 200;
const COMPACT_ABOVE_BYTES = 1024 * 1024;

export class Journal {
  #file;
  #handle;
  #bytes = 0;
  #torn = false;
  #epoch = randomBytes(4).toString('hex');
  #next = 1;
  #pending = new Map(); // key -> { frozen, message }
  #ready = new Map(); // acknowledgement id -> { key, message }, oldest first
  #seen = new Map(); // key -> snippet, oldest first
  #sent = new Map(); // message id -> { chat, text, done, frozen }, oldest first
  #onError;
  failing = false;

  constructor(folder, onError = () => {}) {
    makeFolder(folder);
    this.#file = path.join(folder, 'bridge-queue.jsonl');
    this.#onError = onError;
    this.#load();
    this.#compact();
  }

  // Returns how many messages wait, ready or not.
  get size() {
    return this.#ready.size + this.#pending.size;
  }

  // Returns how many messages can be handed out.
  get readyCount() {
    return this.#ready.size;
  }

  knows(key) {
    return this.#seen.has(key);
  }

  // Records a message that is not complete yet, in a form that survives a restart. Returns false if it is known.
  // `message` is what is handed out if that form cannot be read.
  addPending(key, snippet, frozen, message) {
    if (this.#seen.has(key)) return false;
    this.#pending.set(key, { frozen, message });
    this.#remember(key, snippet);
    this.#append({ t: 'in', k: key, s: cut(snippet), raw: frozen, m: message });
    return true;
  }

  // Records a message that can be handed out. Returns false if it was recorded before.
  addReady(key, snippet, message) {
    if (this.#seen.has(key) && !this.#pending.has(key)) return false;
    const id = `${this.#epoch}-${this.#next}`;
    this.#next += 1;
    this.#pending.delete(key);
    this.#remember(key, snippet);
    this.#ready.set(id, { key, message });
    this.#append({ t: 'msg', k: key, s: cut(snippet), id, m: message });
    return true;
  }

  // Records that a pending message will not be handed out.
  drop(key) {
    if (this.#pending.delete(key)) this.#append({ t: 'drop', k: key });
  }

  // Returns the pending messages, oldest first.
  pending() {
    return [...this.#pending].map(([key, entry]) => ({ key, snippet: this.#seen.get(key), ...entry }));
  }

  // Returns up to `most` messages with their acknowledgement ids, oldest first. They stay in the queue.
  peek(most) {
    const found = [];
    for (const [id, { message }] of this.#ready) {
      if (found.length === most) break;
      found.push({ id, message });
    }
    return found;
  }

  // Removes messages. Returns how many there were. Throws if the disk refuses; then they stay in the queue.
  acknowledge(ids) {
    const known = [...new Set(ids)].filter((id) => this.#ready.has(id));
    if (known.length === 0) return 0;
    if (!this.#append({ t: 'done', ids: known })) throw new Error('the acknowledgement could not be written');
    for (const id of known) this.#ready.delete(id);
    if (this.#bytes > COMPACT_ABOVE_BYTES) this.#compact();
    return known.length;
  }

  // Records that a message is about to be sent. Its echo is recognized from here on, also after a restart.
  beginSend(id, chat, text) {
    const before = this.#sent.get(id);
    this.#sent.delete(id);
    this.#sent.set(id, { chat, text: cut(text), done: before?.done ?? false, frozen: before?.frozen });
    trim(this.#sent, MOST_SENT);
    this.#append({ t: 'send', id, c: chat, s: cut(text) });
  }

  // Records that WhatsApp accepted a message; `frozen` answers a phone that asks for it again.
  finishSend(id, frozen) {
    const entry = this.#sent.get(id);
    if (!entry) return;
    Object.assign(entry, { done: true, frozen });
    this.#append({ t: 'sent', id, raw: frozen });
    if (this.#bytes > COMPACT_ABOVE_BYTES) this.#compact();
  }

  sent(id) {
    return this.#sent.get(id);
  }

  // Returns the snippet of a received message by the end of its key, with the key.
  find(chat, id) {
    for (const fromMe of ['0', '1']) {
      const head = `${chat}|${fromMe}|${id}|`;
      for (const [key, snippet] of this.#seen) if (key.startsWith(head)) return { key, snippet };
    }
    return undefined;
  }

  close() {
    if (this.#handle !== undefined) fs.closeSync(this.#handle);
    this.#handle = undefined;
  }

  #remember(key, snippet) {
    this.#seen.delete(key);
    this.#seen.set(key, cut(snippet));
    trim(this.#seen, MOST_SEEN + this.size);
  }

  #append(record) {
    // After a failure there are things in memory only. They are written before the record, because it may undo one of them.
    if (this.failing && this.#compact()) this.failing = false;
    const line = `${this.#torn ? '\n' : ''}${JSON.stringify(record)}\n`;
    try {
      fs.writeFileSync(this.#handle, line);
      fs.fdatasyncSync(this.#handle);
      this.#bytes += Buffer.byteLength(line);
      this.#torn = false;
      return true;
    } catch (error) {
      // Part of the line may be in the file: the next record begins on a line of its own.
      this.#torn = true;
      if (!this.failing) this.#onError(error);
      this.failing = true;
      return false;
    }
  }

  #load() {
    let text = '';
    try {
      text = fs.readFileSync(this.#file, 'utf8');
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
    }
    const keys = new Map();
    for (const line of text.slice(0, text.lastIndexOf('\n') + 1).split('\n')) {
      if (line === '') continue;
      try {
        this.#replay(JSON.parse(line), keys);
      } catch {
        // A line that a full disk cut short; the records around it are whole.
      }
    }
  }

  #replay(record, keys) {
    switch (record.t) {
      case 'head':
        this.#epoch = record.epoch;
        this.#next = record.next;
        break;
      case 'seen':
        this.#remember(record.k, record.s);
        break;
      case 'in':
        this.#pending.set(record.k, { frozen: record.raw, message: record.m });
        this.#remember(record.k, record.s);
        break;
      case 'msg':
        this.#pending.delete(record.k);
        this.#remember(record.k, record.s);
        this.#ready.set(record.id, { key: record.k, message: record.m });
        this.#next = Math.max(this.#next, Number(record.id.split('-')[1]) + 1);
        break;
      case 'drop':
        this.#pending.delete(record.k);
        break;
      case 'done':
        for (const id of record.ids) this.#ready.delete(id);
        break;
      case 'send':
        this.#sent.set(record.id, { chat: record.c, text: record.s, done: false });
        trim(this.#sent, MOST_SENT);
        break;
      case 'sent': {
        const entry = this.#sent.get(record.id);
        if (entry) Object.assign(entry, { done: true, frozen: record.raw });
        break;
      }
      default:
        // A record of a later release.
        break;
    }
  }

  // Rewrites the file from memory. Returns false where the disk refuses; the old file still holds what it held.
  #compact() {
    const records = [{ t: 'head', epoch: this.#epoch, next: this.#next }];
    for (const [k, s] of this.#seen) records.push({ t: 'seen', k, s });
    for (const [id, entry] of this.#sent) {
      records.push({ t: 'send', id, c: entry.chat, s: entry.text });
      if (entry.done) records.push({ t: 'sent', id, raw: entry.frozen });
    }
    for (const [k, { frozen, message }] of this.#pending) {
      records.push({ t: 'in', k, s: this.#seen.get(k), raw: frozen, m: message });
    }
    for (const [id, { key, message }] of this.#ready) {
      records.push({ t: 'msg', k: key, s: this.#seen.get(key), id, m: message });
    }
    const data = records.map((record) => `${JSON.stringify(record)}\n`).join('');
    let written = true;
    try {
      replaceFile(this.#file, data);
    } catch (error) {
      if (!this.failing) this.#onError(error);
      if (this.#handle !== undefined) return false;
      written = false;
      this.failing = true;
    }
    this.close();
    this.#handle = fs.openSync(this.#file, 'a', 0o600);
    this.#bytes = fs.fstatSync(this.#handle).size;
    // A file that could not be rewritten may end in the middle of a line.
    this.#torn = !written;
    return written;
  }
}

function cut(text) {
  return [...(text ?? '').slice(0, MOST_SNIPPET * 2)].slice(0, MOST_SNIPPET).join('');
}

function trim(map, most) {
  while (map.size > most) map.delete(map.keys().next().value);
}
