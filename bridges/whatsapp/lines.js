// Writes what the bridge says: one JSON object per line on standard output for programs, plain text on standard error for
// people. Invariant: nothing that a library prints reaches either stream, because libsignal prints session keys.

import { Console } from 'node:console';
import { Writable } from 'node:stream';

const MOST_DETAIL = 300;

// Writes one machine-readable line.
export function tell(event, fields = {}) {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
}

// Writes one line for people.
export function note(text) {
  process.stderr.write(`${new Date().toISOString()} ${text}\n`);
}

// Returns the bounded message of an error, without its data: errors of the library carry keys and message texts.
export function reason(error) {
  const text = typeof error === 'string' ? error : error?.message || 'unknown error';
  return String(text).replace(/\s+/g, ' ').slice(0, MOST_DETAIL);
}

// Replaces the console of all modules by one that writes nothing.
export function silenceLibraries() {
  const sink = new Writable({ write: (_chunk, _encoding, done) => done() });
  globalThis.console = new Console({ stdout: sink, stderr: sink });
}

// Returns a logger in the form the library expects. With `debug` it notes the text of warnings, never their data.
export function libraryLogger(debug) {
  const drop = () => {};
  const write = (level) => (data, text) => {
    const line = typeof data === 'string' ? data : text;
    if (typeof line === 'string') note(`library ${level}: ${line.slice(0, MOST_DETAIL)}`);
  };
  const logger = {
    level: debug ? 'info' : 'silent',
    trace: drop,
    debug: drop,
    info: debug ? write('info') : drop,
    warn: debug ? write('warning') : drop,
    error: debug ? write('error') : drop,
    fatal: debug ? write('error') : drop,
  };
  logger.child = () => logger;
  return logger;
}
