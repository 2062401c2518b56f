// Sends what the consumer asks for. Invariant: the id of a message is on disk before the message leaves, so that its echo is
// recognized, and a repeated request with the same id does not send a second message.

import { randomBytes } from 'node:crypto';
import { isChat, isGroup, userOf, withoutDevice } from './inbound.js';
import { KINDS, FileProblem, contentToSend } from './media.js';
import { withLimit } from './inbox.js';
import { reason } from './lines.js';

export const MOST_TEXT_CHARS = 65536;
const SEND_MS = 60_000;
const MEDIA_MS = 120_000;
const MOST_WAITING = 500;

// A request that cannot be answered with success. `status` is the HTTP status, `fields` go into the answer.
export class Refusal extends Error {
  constructor(status, text, fields = {}) {
    super(text);
    this.status = status;
    this.fields = fields;
  }
}

export class Outbound {
  #link;
  #journal;
  #module;
  #options;
  #chains = new Map();
  #waiting = 0;

  constructor({ link, journal, module, options }) {
    this.#link = link;
    this.#journal = journal;
    this.#module = module;
    this.#options = options;
  }

  async send(body) {
    const chat = chatOf(body);
    const mentions = mentionsOf(body);
    if (body.location !== undefined) {
      return this.#dispatch(chat, body, { location: placeOf(body.location) }, '', SEND_MS);
    }
    const text = this.#options.replyPrefix + textOf(body, 'message');
    return this.#dispatch(chat, body, { text, ...(mentions.length ? { mentions } : {}) }, text, SEND_MS);
  }

  async edit(body) {
    const chat = chatOf(body);
    const id = idOf(body, 'messageId');
    const text = this.#options.replyPrefix + textOf(body, 'message');
    const mentions = mentionsOf(body);
    const edit = { remoteJid: chat, id, fromMe: true };
    await this.#dispatch(chat, { messageId: body.editId }, { text, edit, ...(mentions.length ? { mentions } : {}) }, '', SEND_MS);
    return { success: true, messageId: id };
  }

  async sendMedia(body) {
    const chat = chatOf(body);
    required(body, 'filePath');
    const kind = optional(body, 'mediaType');
    if (kind !== undefined && !KINDS.includes(kind)) throw new Refusal(400, `mediaType must be one of ${KINDS.join(', ')}`);
    const request = {
      filePath: body.filePath,
      mediaType: kind,
      caption: optional(body, 'caption'),
      fileName: optional(body, 'fileName')
        ?.replace(/[\/\\\p{Cc}]/gu, '_')
        .slice(0, 255),
      mentions: mentionsOf(body),
    };
    let content;
    try {
      content = contentToSend(request, this.#options.maxMediaBytes);
    } catch (error) {
      if (error instanceof FileProblem) throw new Refusal(/^no such file/.test(error.message) ? 404 : 400, error.message);
      throw error;
    }
    const answer = await this.#dispatch(chat, body, content, request.caption ?? '', MEDIA_MS);
    if ('audio' in content && request.caption) {
      // A sound cannot carry words: they follow as a message of their own.
      await this.#dispatch(chat, { messageId: captionId(answer.messageId) }, { text: request.caption }, request.caption, SEND_MS);
    }
    return answer;
  }

  async react(body) {
    const chat = chatOf(body);
    const emoji = typeof body.emoji === 'string' ? body.emoji : undefined;
    if (emoji === undefined || emoji.length > 32) throw new Refusal(400, 'emoji must be a text of up to 32 characters');
    const key = this.#targetKey(chat, body);
    return this.#dispatch(chat, { messageId: body.reactionId }, { react: { text: emoji, key } }, '', SEND_MS);
  }

  async remove(body) {
    const chat = chatOf(body);
    const key = this.#targetKey(chat, { fromMe: true, ...body });
    return this.#dispatch(chat, { messageId: body.deleteId }, { delete: key }, '', SEND_MS);
  }

  async read(body) {
    const chat = chatOf(body);
    const ids = body.messageIds;
    if (!Array.isArray(ids) || ids.length === 0 || ids.length > 100)
      throw new Refusal(400, 'messageIds must be a list of 1 to 100 ids');
    const keys = ids.map((messageId) => this.#targetKey(chat, { ...body, messageId }));
    await this.#perform((connection) => connection.read(keys), SEND_MS);
    return { success: true };
  }

  async typing(body) {
    const chat = chatOf(body);
    const state = optional(body, 'state') ?? 'composing';
    if (!['composing', 'recording', 'paused'].includes(state))
      throw new Refusal(400, 'state must be composing, recording or paused');
    await this.#perform((connection) => connection.presence(chat, state), 10_000);
    return { success: true };
  }

  async chat(id) {
    const chat = chatOf({ chatId: id });
    if (!isGroup(chat)) return { name: userOf(chat), isGroup: false, participants: [] };
    const group = await this.#perform((connection) => connection.group(chat), 15_000);
    return {
      name: group.subject ?? userOf(chat),
      isGroup: true,
      participants: (group.participants ?? []).map((participant) => participant.id),
      ...(group.desc ? { description: group.desc } : {}),
      ...(group.owner ? { owner: group.owner } : {}),
    };
  }

  // Sends one message in its chat's order and returns the answer of the endpoint.
  async #dispatch(chat, body, content, text, ms) {
    const id = body.messageId === undefined ? newId() : idOf(body, 'messageId');
    this.#connection();
    if (this.#waiting >= MOST_WAITING) throw new Refusal(429, `${MOST_WAITING} messages wait to be sent; try again`);
    this.#waiting += 1;
    const work = (this.#chains.get(chat) ?? Promise.resolve()).then(() => this.#sendOnce(chat, id, body, content, text, ms));
    const settled = work
      .catch(() => {})
      .then(() => {
        this.#waiting -= 1;
        if (this.#chains.get(chat) === settled) this.#chains.delete(chat);
      });
    this.#chains.set(chat, settled);
    return work;
  }

  async #sendOnce(chat, id, body, content, text, ms) {
    const before = this.#journal.sent(id);
    if (before?.done) return { success: true, messageId: id, duplicate: true };
    const quoted = body.replyTo === undefined ? undefined : this.#quoted(chat, body);
    const connection = this.#connection();
    this.#journal.beginSend(id, chat, text);
    let sent;
    try {
      sent = await withLimit(connection.send(chat, content, { id, quoted }), ms, 'WhatsApp did not answer in time');
    } catch (error) {
      // The message may have left. With the same id it can be sent again: phones show one message per id.
      throw new Refusal(/in time$/.test(error.message) ? 504 : 500, reason(error), { messageId: id, outcome: 'unknown' });
    }
    let frozen;
    try {
      frozen = this.#module.freeze(sent);
    } catch {
      frozen = undefined;
    }
    this.#journal.finishSend(id, frozen);
    return { success: true, messageId: id };
  }

  async #perform(action, ms) {
    const connection = this.#connection();
    try {
      return await withLimit(action(connection), ms, 'WhatsApp did not answer in time');
    } catch (error) {
      throw new Refusal(/in time$/.test(error.message) ? 504 : 500, reason(error));
    }
  }

  #connection() {
    const { connection } = this.#link;
    if (!connection) throw new Refusal(503, 'Not connected to WhatsApp');
    return connection;
  }

  // Returns the message to quote. Its author is needed in groups; a message that nobody knows is not quoted there.
  #quoted(chat, body) {
    const id = idOf(body, 'replyTo');
    const sent = this.#journal.sent(id);
    if (sent) return { key: { remoteJid: chat, id, fromMe: true }, message: { conversation: sent.text } };
    const found = this.#journal.find(chat, id);
    const [, fromMe, , author] = found?.key.split('|') ?? [];
    const participant = author || (body.replyToSender ? withoutDevice(String(body.replyToSender)) : undefined);
    if (isGroup(chat) && !participant) return undefined;
    return {
      key: { remoteJid: chat, id, fromMe: fromMe === '1', ...(isGroup(chat) ? { participant } : {}) },
      message: { conversation: String(body.replyToText ?? found?.snippet ?? '').slice(0, 1000) },
    };
  }

  #targetKey(chat, body) {
    const id = idOf(body, 'messageId');
    const found = this.#journal.sent(id) ? undefined : this.#journal.find(chat, id);
    const [, foundFromMe, , author] = found?.key.split('|') ?? [];
    const fromMe = this.#journal.sent(id) ? true : found ? foundFromMe === '1' : Boolean(body.fromMe);
    const participant = author || (body.participant ? withoutDevice(String(body.participant)) : '');
    return { remoteJid: chat, id, fromMe, ...(isGroup(chat) && participant && !fromMe ? { participant } : {}) };
  }
}

function newId() {
  return `3EB0${randomBytes(9).toString('hex').toUpperCase()}`;
}

// The words that follow a sound get an id that a repeated request finds again.
function captionId(id) {
  return `${id.slice(0, 63)}C`;
}

function required(body, name) {
  const value = body[name];
  if (value === undefined || value === null || value === '') throw new Refusal(400, `${name} is required`);
  if (typeof value !== 'string') throw new Refusal(400, `${name} must be a text`);
  return value;
}

function optional(body, name) {
  const value = body[name];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value !== 'string') throw new Refusal(400, `${name} must be a text`);
  return value;
}

function chatOf(body) {
  const given = required(body, 'chatId').trim();
  const chat = /^\+?\d{6,15}$/.test(given) ? `${given.replace('+', '')}@s.whatsapp.net` : withoutDevice(given);
  if (!isChat(chat)) throw new Refusal(400, 'chatId is not a WhatsApp chat');
  return chat;
}

function idOf(body, name) {
  const value = required(body, name);
  if (!/^[A-Za-z0-9._:-]{1,128}$/.test(value)) throw new Refusal(400, `${name} is not a message id`);
  return value;
}

function textOf(body, name) {
  const text = required(body, name);
  if (text.length > MOST_TEXT_CHARS) throw new Refusal(400, `${name} is longer than ${MOST_TEXT_CHARS} characters`);
  return text;
}

function mentionsOf(body) {
  const list = body.mentions ?? [];
  if (!Array.isArray(list) || list.length > 1024 || list.some((entry) => typeof entry !== 'string')) {
    throw new Refusal(400, 'mentions must be a list of ids');
  }
  return list
    .map((entry) => (/^\+?\d{6,15}$/.test(entry) ? `${entry.replace('+', '')}@s.whatsapp.net` : withoutDevice(entry)))
    .filter(Boolean);
}

function placeOf(location) {
  const { latitude, longitude, name, address } = location ?? {};
  const inside = (value, most) => typeof value === 'number' && Math.abs(value) <= most;
  if (!inside(latitude, 90) || !inside(longitude, 180)) throw new Refusal(400, 'location needs latitude and longitude');
  return {
    degreesLatitude: latitude,
    degreesLongitude: longitude,
    ...(name ? { name: String(name) } : {}),
    ...(address ? { address: String(address) } : {}),
  };
}
