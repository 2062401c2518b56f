// The session folder: one JSON file per credential or key, in the format that the library calls multi-file state, so that
// linked phones stay linked. Invariant: a file is replaced whole and has mode 0600.

import fs from 'node:fs';
import path from 'node:path';
import { makeFolder, replaceFile } from './files.js';

// Tells whether the folder holds the credentials of a linked phone. A request for a code already writes `me`; only the phone's
// consent adds `account`.
export function isLinked(folder) {
  try {
    const { me, account } = JSON.parse(fs.readFileSync(path.join(folder, 'creds.json'), 'utf8'));
    return Boolean(me?.id && account);
  } catch {
    return false;
  }
}

// Moves a session that WhatsApp ended aside, replacing an older one.
export function setAside(folder) {
  const aside = `${folder}.logged-out`;
  fs.rmSync(aside, { recursive: true, force: true });
  fs.renameSync(folder, aside);
  makeFolder(folder);
}

// Opens the folder. `codec` has the library's `replacer`, `reviver`, `freshCredentials` and `syncKey`.
// `onWriteError` hears of a full disk once per failure; the state in memory goes on.
export function openSession(folder, codec, onWriteError) {
  makeFolder(folder);
  fs.chmodSync(folder, 0o700);
  const fileOf = (name) => path.join(folder, `${name.replaceAll('/', '__').replaceAll(':', '-')}.json`);

  const read = (name) => {
    let text;
    try {
      text = fs.readFileSync(fileOf(name), 'utf8');
    } catch (error) {
      if (error.code === 'ENOENT') return null;
      throw error;
    }
    try {
      return JSON.parse(text, codec.reviver);
    } catch {
      return null;
    }
  };
  const write = (name, value, durable) => {
    try {
      if (value === null || value === undefined) fs.rmSync(fileOf(name), { force: true });
      else replaceFile(fileOf(name), JSON.stringify(value, codec.replacer), { durable });
    } catch (error) {
      onWriteError(error);
    }
  };

  const stored = read('creds');
  if (stored === null && fs.existsSync(fileOf('creds')) && fs.statSync(fileOf('creds')).size > 0) {
    throw new Error(`${fileOf('creds')} is not readable; restore it, or remove the folder and link the phone again`);
  }
  const creds = stored ?? codec.freshCredentials();
  return {
    creds,
    keys: {
      get: async (type, ids) => {
        const found = {};
        for (const id of ids) {
          const value = read(`${type}-${id}`);
          found[id] = type === 'app-state-sync-key' && value ? codec.syncKey(value) : value;
        }
        return found;
      },
      set: async (changes) => {
        // Not synced one by one: a key that a power cut takes back is negotiated again, and catching up after a night
        // offline writes thousands.
        for (const [type, values] of Object.entries(changes)) {
          for (const [id, value] of Object.entries(values ?? {})) write(`${type}-${id}`, value, false);
        }
      },
    },
    saveCredentials: () => write('creds', creds, true),
  };
}

// Returns the other names of a user: the phone number of a LID, the LID of a phone number.
export class LidMapping {
  constructor(folder) {
    this.folder = folder;
  }

  phoneOf(lid) {
    return this.#read(`lid-mapping-${lid}_reverse.json`);
  }

  lidOf(phone) {
    return this.#read(`lid-mapping-${phone}.json`);
  }

  #read(name) {
    if (!/^[\w-]+\.json$/.test(name)) return undefined;
    try {
      const value = JSON.parse(fs.readFileSync(path.join(this.folder, name), 'utf8'));
      return typeof value === 'string' ? value.split(/[@:]/)[0] : undefined;
    } catch {
      return undefined;
    }
  }
}
