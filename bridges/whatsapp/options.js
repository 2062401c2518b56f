// Reads the command line and the variables of the bridge. Opens nothing and starts nothing.

import path from 'node:path';

export const USAGE = `usage: node bridge.js --session DIR [options]

  --port N            port on 127.0.0.1 (default 3000; 0 = any free port)
  --session DIR       folder with the WhatsApp session
  --mode MODE         self-chat (default) or bot
  --pair-only         link a phone, then exit
  --pair-phone NUMBER with --pair-only: link by a code for this number instead of a QR code
  --pair-timeout S    seconds to wait for the phone (default 300)
  --media-dir DIR     folder for received files (default: media beside the session)
  --state-dir DIR     folder for the queue and the lock (default: beside the session)
  --max-queue N       stop receiving when this many messages wait (default 10000)
  --max-media-mb N    largest file received or sent (default 100)
  --stdin             read a settings line from standard input and end when it closes
  --check             load the WhatsApp library, print its version and exit
  --help              print this text

variables: WHATSAPP_MODE, WHATSAPP_ALLOWED_USERS, WHATSAPP_REPLY_PREFIX, WHATSAPP_DEBUG
`;

export const DEFAULT_REPLY_PREFIX = `⚕ *Hermes Agent*\n${'─'.repeat(12)}\n`;

export class UsageError extends Error {}

const FLAGS = new Set(['--pair-only', '--stdin', '--check', '--help']);
const VALUES = new Set([
  '--port',
  '--session',
  '--mode',
  '--pair-phone',
  '--pair-timeout',
  '--media-dir',
  '--state-dir',
  '--max-queue',
  '--max-media-mb',
]);

// Returns the options of a run. Throws a UsageError that names what is wrong.
export function parseOptions(args, env) {
  const given = new Map();
  for (let at = 0; at < args.length; at += 1) {
    let [name, value] = [args[at], undefined];
    const equals = name.indexOf('=');
    if (name.startsWith('--') && equals > 0) [name, value] = [name.slice(0, equals), name.slice(equals + 1)];
    if (FLAGS.has(name) && value === undefined) {
      given.set(name, true);
    } else if (VALUES.has(name)) {
      value ??= args[(at += 1)];
      if (value === undefined) throw new UsageError(`${name} needs a value`);
      given.set(name, value);
    } else {
      throw new UsageError(`unknown argument: ${args[at]}`);
    }
  }
  const mode = given.get('--mode') ?? (env.WHATSAPP_MODE || 'self-chat');
  if (mode !== 'self-chat' && mode !== 'bot') throw new UsageError('--mode must be self-chat or bot');
  const needsSession = !given.has('--check') && !given.has('--help');
  if (needsSession && !given.get('--session')) throw new UsageError('--session DIR is missing');
  const session = path.resolve(given.get('--session') ?? '.');
  const state = path.resolve(given.get('--state-dir') ?? path.dirname(session));
  const phone = given.get('--pair-phone')?.replace(/[\s()+-]/g, '');
  if (phone !== undefined && !/^\d{6,15}$/.test(phone)) {
    throw new UsageError('--pair-phone must be a number with its country code');
  }
  return {
    port: whole(given, '--port', 3000, 0, 65535),
    session,
    state,
    media: path.resolve(given.get('--media-dir') ?? path.join(path.dirname(session), 'media')),
    mode,
    pairOnly: given.has('--pair-only'),
    pairPhone: phone,
    pairTimeoutMs: whole(given, '--pair-timeout', 300, 1, 86400) * 1000,
    maxQueue: whole(given, '--max-queue', 10000, 1, 1000000),
    maxMediaBytes: whole(given, '--max-media-mb', 100, 1, 2048) * 1024 * 1024,
    stdin: given.has('--stdin'),
    check: given.has('--check'),
    help: given.has('--help'),
    replyPrefix: replyPrefix(env.WHATSAPP_REPLY_PREFIX),
    allowed: allowedUsers(env.WHATSAPP_ALLOWED_USERS),
    debug: ['1', 'true', 'yes', 'on'].includes((env.WHATSAPP_DEBUG ?? '').toLowerCase()),
  };
}

function whole(given, name, otherwise, least, most) {
  const text = given.get(name);
  if (text === undefined) return otherwise;
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < least || number > most) {
    throw new UsageError(`${name} must be a number from ${least} to ${most}`);
  }
  return number;
}

// Returns the text before each answer: absent means the default header, empty means none.
export function replyPrefix(text) {
  if (text === undefined) return DEFAULT_REPLY_PREFIX;
  return text.replaceAll('\\n', '\n');
}

// Returns the digits of the allowed users, or undefined if everybody passes (no list, or a star).
export function allowedUsers(text) {
  const entries = (text ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter(Boolean);
  if (entries.length === 0 || entries.includes('*')) return { listed: entries.length > 0, users: undefined };
  return { listed: true, users: new Set(entries.map((entry) => entry.split(/[@:]/)[0].replace(/\D/g, ''))) };
}
