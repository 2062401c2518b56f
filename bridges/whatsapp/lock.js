// Holds the lock of a session: two bridges with one session replace each other's connection and spoil its keys.
// Invariant: the lock file names a live process only while that process runs the bridge.

import fs from 'node:fs';
import path from 'node:path';
import { makeFolder, replaceFile } from './files.js';

export class SessionInUse extends Error {
  constructor(pid) {
    super(`another bridge (process ${pid}) uses this session`);
    this.pid = pid;
  }
}

// Takes the lock in a folder and returns what releases it. Throws SessionInUse.
export function takeLock(folder) {
  makeFolder(folder);
  const file = path.join(folder, 'bridge.lock');
  const mine = { pid: process.pid, started: startOf(process.pid) };
  for (let attempt = 0; ; attempt += 1) {
    try {
      fs.writeFileSync(file, JSON.stringify(mine), { flag: 'wx', mode: 0o600 });
      break;
    } catch (error) {
      if (error.code !== 'EEXIST' || attempt === 5) throw error;
    }
    const holder = readLock(file);
    if (holder && isAlive(holder)) throw new SessionInUse(holder.pid);
    fs.rmSync(file, { force: true });
  }
  return {
    update: (fields) => replaceFile(file, JSON.stringify({ ...mine, ...fields })),
    release: () => {
      if (readLock(file)?.pid === process.pid) fs.rmSync(file, { force: true });
    },
  };
}

function readLock(file) {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

function isAlive({ pid, started }) {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (error.code !== 'EPERM') return false;
  }
  const now = startOf(pid);
  return !now || !started || now === started;
}

// Returns when a process started, in the kernel's ticks, or undefined where there is no /proc. A reused id differs in it.
function startOf(pid) {
  try {
    const stat = fs.readFileSync(path.join('/proc', String(pid), 'stat'), 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
