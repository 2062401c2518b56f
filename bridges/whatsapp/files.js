// File operations that leave no partial file and nothing that other users can read.

import fs from 'node:fs';
import path from 'node:path';
import { randomBytes } from 'node:crypto';

// Creates a folder with access for its owner only. An existing folder keeps its mode.
export function makeFolder(folder) {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
}

// Replaces a file in one step. `durable` waits until the disk has it.
export function replaceFile(file, data, { durable = true } = {}) {
  const beside = `${file}.${randomBytes(4).toString('hex')}.tmp`;
  try {
    const handle = fs.openSync(beside, 'wx', 0o600);
    try {
      fs.writeFileSync(handle, data);
      if (durable) fs.fsyncSync(handle);
    } finally {
      fs.closeSync(handle);
    }
    fs.renameSync(beside, file);
  } catch (error) {
    fs.rmSync(beside, { force: true });
    throw error;
  }
  if (durable) syncFolder(path.dirname(file));
}

// Waits until the disk has the names of a folder, where the system can do that.
export function syncFolder(folder) {
  try {
    const handle = fs.openSync(folder, 'r');
    try {
      fs.fsyncSync(handle);
    } finally {
      fs.closeSync(handle);
    }
  } catch {
    // Some systems cannot open a folder; the rename itself is atomic there too.
  }
}
