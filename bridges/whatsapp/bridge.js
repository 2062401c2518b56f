#!/usr/bin/env node
// The WhatsApp bridge of Hermes: reads its options, takes the session's lock, connects, serves and ends in order.
// README.md beside this file is the contract with the program that starts it.

import { pathToFileURL } from 'node:url';
import { once } from 'node:events';
import { makeFolder } from './files.js';
import { makeServer } from './http.js';
import { Inbox } from './inbox.js';
import { Journal } from './journal.js';
import { EXIT, Link } from './link.js';
import { note, reason, silenceLibraries, tell } from './lines.js';
import { SessionInUse, takeLock } from './lock.js';
import { Outbound } from './outbound.js';
import { Policy } from './inbound.js';
import { LidMapping, isLinked } from './session.js';
import { USAGE, UsageError, parseOptions } from './options.js';

const MOST_SETTINGS_CHARS = 16_384;
const STOP_MS = 3000;

process.umask(0o077);
silenceLibraries();
// The program that reads our lines may be gone; that is no reason to end with a stack trace.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

const cleanups = [];
let ending = false;

// Ends the process: cleans up in reverse order, within a limit.
async function end(code, why) {
  if (ending) return;
  ending = true;
  const limit = setTimeout(() => process.exit(code), STOP_MS);
  for (const cleanup of cleanups.reverse()) {
    try {
      await cleanup();
    } catch (error) {
      note(`ending: ${reason(error)}`);
    }
  }
  tell('exit', { code, ...(why ? { text: why } : {}) });
  clearTimeout(limit);
  process.stdout.write('', () => process.exit(code));
}

process.on('SIGTERM', () => end(EXIT.ok, 'terminated'));
process.on('SIGINT', () => end(EXIT.ok, 'interrupted'));
process.on('SIGHUP', () => end(EXIT.ok, 'hung up'));
process.on('unhandledRejection', (error) => note(`unhandled: ${reason(error)}`));
process.on('uncaughtException', (error) => {
  note(`failed: ${reason(error)}`);
  end(EXIT.failure, reason(error));
});

async function loadModule() {
  // For tests: another module takes the place of the connection.
  const other = process.env.HERMES_WHATSAPP_SOCKET_MODULE;
  const module = await import(other ? pathToFileURL(other) : './baileys-socket.js');
  return { module, ...(await module.load()) };
}

// Returns the settings line of the parent, and ends the bridge when its end of the pipe closes.
async function readSettings() {
  process.stdin.setEncoding('utf8');
  let text = '';
  let line;
  const first = new Promise((resolve, reject) => {
    process.stdin.on('data', (chunk) => {
      if (line !== undefined) return;
      text += chunk;
      const at = text.indexOf('\n');
      if (at < 0 && text.length > MOST_SETTINGS_CHARS) reject(new UsageError('the settings line is too long'));
      if (at < 0) return;
      line = text.slice(0, at);
      resolve();
    });
  });
  const over = () => end(EXIT.ok, 'the parent ended');
  process.stdin.on('end', over);
  process.stdin.on('error', over);
  await first;
  let settings;
  try {
    settings = JSON.parse(line);
  } catch {
    throw new UsageError('the settings line is not JSON');
  }
  const { token } = settings ?? {};
  if (token !== undefined && (typeof token !== 'string' || token.length < 16)) {
    throw new UsageError('the token in the settings line must be a text of at least 16 characters');
  }
  return { token };
}

async function listen(server, port) {
  server.listen({ host: '127.0.0.1', port, exclusive: true });
  await once(server, 'listening');
  return server.address().port;
}

async function main() {
  const options = parseOptions(process.argv.slice(2), process.env);
  if (options.help) {
    process.stdout.write(USAGE);
    process.exit(EXIT.ok);
  }
  const settings = options.stdin ? await readSettings() : {};

  let loaded;
  try {
    loaded = await loadModule();
  } catch (error) {
    tell('no_library', {
      text: `the WhatsApp library cannot be loaded: run npm ci in the folder of the bridge (${reason(error)})`,
    });
    await end(EXIT.noLibrary);
    return;
  }
  const { module, library, version } = loaded;
  if (options.check) {
    tell('check', { library, version, node: process.version });
    await end(EXIT.ok);
    return;
  }

  makeFolder(options.state);
  const lock = takeLock(options.state);
  cleanups.push(() => lock.release());
  tell('starting', { pid: process.pid, library, version, mode: options.mode });

  if (options.pairOnly) pair(options, module);
  else await serve(options, module, settings, lock);
}

// Links a phone and ends.
function pair(options, module) {
  const limit = setTimeout(() => {
    tell('timeout', { text: 'no phone was linked in time' });
    end(EXIT.pairingTimedOut);
  }, options.pairTimeoutMs);
  const link = new Link(options, module, {
    onMessages: () => {},
    onGroup: () => {},
    onEnd: (code) => end(code),
    getSent: () => undefined,
    onOpen: () => {
      clearTimeout(limit);
      if (!isLinked(options.session)) note('the session was not written; link again after freeing space');
      tell('linked', { id: link.self.id });
      end(EXIT.ok);
    },
  });
  cleanups.push(() => link.stop());
  link.start();
}

async function serve(options, module, settings, lock) {
  const journal = new Journal(options.state, (error) => note(`the queue could not be written: ${reason(error)}`));
  cleanups.push(() => journal.close());
  const policy = new Policy({
    mode: options.mode,
    replyPrefix: options.replyPrefix,
    allowed: options.allowed,
    mapping: new LidMapping(options.session),
    isSent: (id) => journal.sent(id) !== undefined,
  });
  let inbox;
  const link = new Link(options, module, {
    onMessages: (messages) => inbox.receive(messages),
    onOpen: () => inbox.resume(),
    onGroup: (id) => inbox.forgetGroup(id),
    onEnd: (code) => end(code),
    getSent: (id) => journal.sent(id)?.frozen,
  });
  inbox = new Inbox({ journal, policy, link, module, options });
  const outbound = new Outbound({ link, journal, module, options });
  const server = makeServer({ inbox, outbound, journal, link, options, token: settings.token });

  let port;
  try {
    port = await listen(server, options.port);
  } catch (error) {
    tell('port_taken', { text: `port ${options.port} cannot be used: ${reason(error)}` });
    await end(EXIT.portTaken);
    return;
  }
  // Order of the end: requests, waits, the connection, the journal, the lock.
  cleanups.push(() => link.stop());
  cleanups.push(() => inbox.stop());
  cleanups.push(() => {
    server.close();
    server.closeIdleConnections();
  });
  lock.update({ port });
  tell('listening', { port, pid: process.pid });
  link.start();
}

main().catch((error) => {
  if (error instanceof UsageError) {
    process.stderr.write(`${error.message}\n\n${USAGE}`);
    process.exit(EXIT.usage);
  }
  if (error instanceof SessionInUse) {
    tell('session_in_use', { text: error.message, pid: error.pid });
    end(EXIT.sessionInUse);
    return;
  }
  note(`failed: ${reason(error)}`);
  end(EXIT.failure, reason(error));
});
