// Takes received messages from the connection into the journal, completes them (files, names of groups) and hands them out.
// Invariant: messages of one chat are handed out in the order in which they arrived.

import { FileProblem, saveReceived } from './media.js';
import { isGroup, keyOf, translate } from './inbound.js';
import { note, reason } from './lines.js';

const DOWNLOAD_MS = 120_000;
const MOST_ATTEMPTS = 3;
const MOST_GROUPS = 500;

export class Inbox {
  #journal;
  #policy;
  #link;
  #module;
  #options;
  #chains = new Map(); // chat -> promise of its last pending message
  #groupNames = new Map();
  #waiting = new Set(); // resolvers of requests that wait for a message
  #resumed = false;
  #unresumed; // chats with messages that an earlier run left pending
  #stopping = false;

  constructor({ journal, policy, link, module, options }) {
    this.#journal = journal;
    this.#policy = policy;
    this.#link = link;
    this.#module = module;
    this.#options = options;
    this.#unresumed = new Set(journal.pending().map(({ key }) => key.split('|')[0]));
  }

  receive(messages) {
    for (const raw of messages) {
      try {
        this.#accept(raw);
      } catch (error) {
        note(`a message could not be read: ${reason(error)}`);
      }
    }
  }

  // Completes what an earlier run left pending. Needs a connection, because old files are requested from the phone.
  resume() {
    if (this.#resumed) return;
    this.#resumed = true;
    this.#unresumed.clear();
    for (const { key, snippet, frozen, message } of this.#journal.pending()) {
      let raw;
      try {
        raw = this.#module.thaw(frozen);
      } catch (error) {
        note(`a stored message could not be read: ${reason(error)}`);
        this.#handOut(key, snippet, message.hasMedia ? { ...message, mediaError: 'the file was not fetched in time' } : message);
        continue;
      }
      this.#complete(raw, key);
    }
  }

  forgetGroup(id) {
    this.#groupNames.delete(id);
  }

  // Resolves when a message is ready or the time is over.
  async waitForMessage(ms) {
    if (this.#journal.readyCount > 0 || ms === 0) return;
    await new Promise((resolve) => {
      const timer = setTimeout(finish, ms);
      const waiting = this.#waiting;
      function finish() {
        clearTimeout(timer);
        waiting.delete(finish);
        resolve();
      }
      waiting.add(finish);
    });
  }

  // Ends all waits: the bridge stops. What is pending stays so.
  stop() {
    this.#stopping = true;
    for (const finish of [...this.#waiting]) finish();
  }

  #accept(raw) {
    const found = translate(raw, this.#link.self);
    if (!found || !this.#policy.accepts(found.message, this.#link.self)) return;
    const key = keyOf(raw);
    if (this.#journal.knows(key)) return;
    const { message, media, snippet } = found;
    const named = !message.isGroup || this.#groupNames.has(message.chatId);
    const waits = this.#unresumed.has(message.chatId);
    if (!media && named && !waits && !this.#chains.has(message.chatId)) {
      if (message.isGroup) message.chatName = this.#groupNames.get(message.chatId);
      this.#handOut(key, snippet, message);
      return;
    }
    this.#journal.addPending(key, snippet, this.#freeze(raw), message);
    if (!waits) this.#complete(raw, key);
  }

  #freeze(raw) {
    try {
      return this.#module.freeze(raw);
    } catch (error) {
      note(`a message could not be stored whole: ${reason(error)}`);
      return '';
    }
  }

  #complete(raw, key) {
    const found = translate(raw, this.#link.self);
    if (!found) {
      this.#journal.drop(key);
      return;
    }
    const chat = found.message.chatId;
    const work = (this.#chains.get(chat) ?? Promise.resolve()).then(async () => {
      const { message, media, snippet } = found;
      if (this.#stopping) return;
      if (message.isGroup) message.chatName = await this.#nameOf(chat);
      if (media) await this.#fetch(raw, key, media, message);
      if (!this.#stopping) this.#handOut(key, snippet, message);
    });
    const settled = work
      .catch((error) => note(`a message could not be completed: ${reason(error)}`))
      .then(() => {
        if (this.#chains.get(chat) === settled) this.#chains.delete(chat);
      });
    this.#chains.set(chat, settled);
  }

  async #fetch(raw, key, media, message) {
    const limit = this.#options.maxMediaBytes;
    const wait = 2000 * (this.#module.delayScale ?? 1);
    for (let attempt = 1; ; attempt += 1) {
      try {
        if (media.bytes > limit) throw new FileProblem(`the file is larger than ${limit} bytes`);
        const fetched = (async () => {
          const chunks = await this.#link.lastConnection.download(raw);
          return saveReceived(this.#options.media, key, media, chunks, limit);
        })();
        message.mediaUrls = [await withLimit(fetched, DOWNLOAD_MS, 'the file did not arrive in time')];
        return;
      } catch (error) {
        // A file that this run did not finish stays pending; the next run fetches it.
        if (this.#stopping) throw error;
        if (error instanceof FileProblem || attempt === MOST_ATTEMPTS) {
          // The consumer learns that there was a file and why it has none: the text must not be lost with it.
          message.mediaError = reason(error);
          return;
        }
        await new Promise((resolve) => {
          setTimeout(resolve, wait * attempt);
        });
      }
    }
  }

  async #nameOf(chat) {
    const known = this.#groupNames.get(chat);
    if (known !== undefined) return known;
    try {
      const group = await withLimit(this.#link.connection?.group(chat) ?? Promise.resolve(), 10_000, 'no answer');
      if (group?.subject) {
        this.#groupNames.set(chat, group.subject);
        if (this.#groupNames.size > MOST_GROUPS) this.#groupNames.delete(this.#groupNames.keys().next().value);
        return group.subject;
      }
    } catch (error) {
      note(`the name of a group could not be read: ${reason(error)}`);
    }
    return isGroup(chat) ? chat.split('@')[0] : '';
  }

  #handOut(key, snippet, message) {
    if (!this.#journal.addReady(key, snippet, message)) return;
    for (const finish of [...this.#waiting]) finish();
    if (this.#journal.size >= this.#options.maxQueue) this.#link.pause();
  }
}

// Settles like the promise, or fails after the time.
export async function withLimit(promise, ms, text) {
  let timer;
  const limit = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(text)), ms);
  });
  try {
    return await Promise.race([promise, limit]);
  } finally {
    clearTimeout(timer);
  }
}
