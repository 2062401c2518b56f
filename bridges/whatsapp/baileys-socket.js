// The connection to WhatsApp through the library Baileys. The only module that knows it; tests put another module with the
// same three exports in its place:
//
//   load()               loads the library; returns { library, version }; throws if it is not installed
//   connect(options)     opens a connection; returns a promise of a Connection
//   freeze(raw), thaw(text)   a received message as text that survives a restart, and back
//
// options: { sessionFolder, log, debug, freshVersion, getSent(id), onEvent(event), onWriteError(error) }
// events:  { type: 'qr', payload }, { type: 'open', self: { id, lid, name } }, { type: 'close', code, text },
//          { type: 'messages', messages, self }, { type: 'group', id }
// Connection: send(chat, content, { id, quoted }), presence(chat, state), group(chat), read(keys), download(raw),
//             pairingCode(phone), close()
//
// Invariant: a received message is passed on in the same step in which the library reports it, before the library's own
// buffer, which holds messages back for seconds after their receipt was sent.

import { openSession } from './session.js';
import { libraryLogger } from './lines.js';

let library;

export async function load() {
  library ??= await import('@whiskeysockets/baileys');
  const { createRequire } = await import('node:module');
  const { version } = createRequire(import.meta.url)('@whiskeysockets/baileys/package.json');
  return { library: 'baileys', version };
}

export async function connect(options) {
  await load();
  const { default: makeSocket, BufferJSON, initAuthCreds, proto, fetchLatestWaWebVersion, Browsers } = library;
  const session = openSession(
    options.sessionFolder,
    {
      replacer: BufferJSON.replacer,
      reviver: BufferJSON.reviver,
      freshCredentials: initAuthCreds,
      syncKey: (value) => proto.Message.AppStateSyncKeyData.fromObject(value),
    },
    options.onWriteError,
  );
  if (session.creds.me && !session.creds.account) session.creds.me = undefined; // a code that nobody entered
  const groups = new GroupCache();
  const { INITIAL_BOOTSTRAP, PUSH_NAME, NON_BLOCKING_DATA } = proto.HistorySync.HistorySyncType;
  const wantedSync = [INITIAL_BOOTSTRAP, PUSH_NAME, NON_BLOCKING_DATA];
  const logger = libraryLogger(options.debug);
  // WhatsApp refuses clients older than it likes; then the version it serves to browsers is asked for, and only then.
  const fresh = options.freshVersion ? await fetchLatestWaWebVersion({ signal: AbortSignal.timeout(10_000) }) : undefined;
  const socket = makeSocket({
    auth: { creds: session.creds, keys: session.keys },
    ...(fresh?.isLatest ? { version: fresh.version } : {}),
    ...(options.url ? { waWebSocketUrl: options.url } : {}), // for tests
    logger,
    browser: Browsers.appropriate('Chrome'),
    markOnlineOnConnect: false, // the phone keeps its notifications
    syncFullHistory: false,
    // Old conversations are not messages to the agent. What is left has the first pairs of numbers and LIDs, without which
    // the library loses sessions.
    shouldSyncHistoryMessage: ({ syncType }) => wantedSync.includes(syncType),
    generateHighQualityLinkPreview: false,
    cachedGroupMetadata: async (id) => groups.get(id),
    getMessage: async (key) => {
      const frozen = options.getSent(key.id);
      return frozen ? (thaw(frozen).message ?? undefined) : undefined;
    },
  });

  options.onSocket?.(socket); // for tests
  const emit = socket.ev.emit;
  socket.ev.emit = (name, data) => {
    if (name === 'messages.upsert') options.onEvent({ type: 'messages', messages: data.messages, self: selfOf(session.creds.me) });
    return emit(name, data);
  };
  socket.ev.on('creds.update', (changes) => {
    Object.assign(session.creds, changes);
    session.saveCredentials();
  });
  const forget = (id) => {
    groups.delete(id);
    options.onEvent({ type: 'group', id });
  };
  socket.ev.on('groups.update', (changes) => changes.forEach(({ id }) => id && forget(id)));
  socket.ev.on('group-participants.update', ({ id }) => forget(id));
  socket.ev.on('connection.update', ({ connection, lastDisconnect, qr }) => {
    if (qr) options.onEvent({ type: 'qr', payload: qr });
    if (connection === 'open') {
      options.onEvent({ type: 'open', self: selfOf(socket.user) });
    }
    if (connection === 'close') {
      const error = lastDisconnect?.error;
      options.onEvent({ type: 'close', code: error?.output?.statusCode ?? 0, text: error?.message ?? '' });
    }
  });

  return {
    send: async (chat, content, { id, quoted } = {}) => {
      // A preview would fetch whatever address the text names.
      const plain = 'text' in content ? { linkPreview: null, ...content } : content;
      return socket.sendMessage(chat, plain, { messageId: id, ...(quoted ? { quoted } : {}) });
    },
    presence: (chat, state) => socket.sendPresenceUpdate(state, chat),
    group: async (id) => {
      const known = groups.get(id);
      if (known) return known;
      const found = await socket.groupMetadata(id);
      groups.set(id, found);
      return found;
    },
    read: (keys) => socket.readMessages(keys),
    download: (raw) =>
      library.downloadMediaMessage(raw, 'stream', {}, { logger, reuploadRequest: (message) => socket.updateMediaMessage(message) }),
    pairingCode: (phone) => socket.requestPairingCode(phone),
    close: async () => {
      await socket.end(undefined);
    },
  };
}

function selfOf(user) {
  return user ? { id: user.id, lid: user.lid, name: user.name } : undefined;
}

// The message itself is stored in WhatsApp's own encoding; the names the library added to the key are kept beside it.
export function freeze(raw) {
  const { remoteJidAlt, participantAlt, addressingMode } = raw.key ?? {};
  const bytes = library.proto.WebMessageInfo.encode(library.proto.WebMessageInfo.fromObject(raw)).finish();
  return JSON.stringify({ p: Buffer.from(bytes).toString('base64'), k: { remoteJidAlt, participantAlt, addressingMode } });
}

export function thaw(text) {
  const { p, k } = JSON.parse(text);
  const message = library.proto.WebMessageInfo.decode(Buffer.from(p, 'base64'));
  Object.assign(message.key, k);
  return message;
}

class GroupCache {
  #entries = new Map();

  get(id) {
    const entry = this.#entries.get(id);
    return entry && Date.now() - entry.at < 5 * 60_000 ? entry.group : undefined;
  }

  set(id, group) {
    this.#entries.set(id, { group, at: Date.now() });
    if (this.#entries.size > 200) this.#entries.delete(this.#entries.keys().next().value);
  }

  delete(id) {
    this.#entries.delete(id);
  }
}
