// Files of messages: received ones are written to the cache folder, sent ones are checked and given their kind.
// Invariants: a received file has mode 0600, appears whole or not at all, and is never larger than the limit; no name that a
// sender chose decides where it is written.

import fs from 'node:fs';
import path from 'node:path';
import { createHash } from 'node:crypto';
import { makeFolder } from './files.js';

// kind, MIME type by extension. The first extension of a type is the one that received files get.
const TYPES = {
  jpg: ['image', 'image/jpeg'],
  jpeg: ['image', 'image/jpeg'],
  png: ['image', 'image/png'],
  webp: ['image', 'image/webp'],
  gif: ['document', 'image/gif'],
  mp4: ['video', 'video/mp4'],
  mov: ['video', 'video/quicktime'],
  '3gp': ['video', 'video/3gpp'],
  mkv: ['video', 'video/x-matroska'],
  webm: ['video', 'video/webm'],
  avi: ['video', 'video/x-msvideo'],
  ogg: ['audio', 'audio/ogg; codecs=opus'],
  opus: ['audio', 'audio/ogg; codecs=opus'],
  mp3: ['audio', 'audio/mpeg'],
  m4a: ['audio', 'audio/mp4'],
  aac: ['audio', 'audio/aac'],
  wav: ['audio', 'audio/wav'],
  flac: ['audio', 'audio/flac'],
  pdf: ['document', 'application/pdf'],
  txt: ['document', 'text/plain'],
  md: ['document', 'text/markdown'],
  csv: ['document', 'text/csv'],
  html: ['document', 'text/html'],
  json: ['document', 'application/json'],
  xml: ['document', 'application/xml'],
  zip: ['document', 'application/zip'],
  doc: ['document', 'application/msword'],
  docx: ['document', 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'],
  xls: ['document', 'application/vnd.ms-excel'],
  xlsx: ['document', 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'],
  ppt: ['document', 'application/vnd.ms-powerpoint'],
  pptx: ['document', 'application/vnd.openxmlformats-officedocument.presentationml.presentation'],
};
const FALLBACK = { image: 'jpg', video: 'mp4', audio: 'm4a', ptt: 'ogg', document: 'bin' };
export const KINDS = ['image', 'video', 'audio', 'ptt', 'document'];

export class FileProblem extends Error {}

function extensionFor(media) {
  const named = /\.([A-Za-z0-9]{1,8})$/.exec(media.name ?? '');
  if (named) return named[1].toLowerCase();
  const type = (media.mime ?? '').split(';')[0].trim().toLowerCase();
  const known = Object.entries(TYPES).find(([, [, mime]]) => mime.split(';')[0] === type);
  return known ? known[0] : FALLBACK[media.type];
}

// Writes the bytes of a received file into the folder and returns its path. Throws a FileProblem above the limit.
export async function saveReceived(folder, key, media, chunks, limit) {
  makeFolder(folder);
  const name = `${media.type}_${createHash('sha256').update(key).digest('hex').slice(0, 24)}.${extensionFor(media)}`;
  const file = path.join(folder, name);
  const part = `${file}.part`;
  let bytes = 0;
  const handle = await fs.promises.open(part, 'w', 0o600);
  try {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      if (bytes > limit) throw new FileProblem(`the file is larger than ${limit} bytes`);
      await handle.write(chunk);
    }
    await handle.sync();
    await handle.close();
    await fs.promises.rename(part, file);
    return file;
  } catch (error) {
    await handle.close().catch(() => {});
    await fs.promises.rm(part, { force: true });
    throw error;
  }
}

// Returns the content that sends a file. Throws a FileProblem that can be told to the caller.
export function contentToSend({ filePath, mediaType, caption, fileName, mentions }, limit) {
  if (!path.isAbsolute(filePath)) throw new FileProblem('filePath must be absolute');
  let info;
  try {
    info = fs.statSync(filePath);
    fs.accessSync(filePath, fs.constants.R_OK);
  } catch (error) {
    throw new FileProblem(error.code === 'ENOENT' ? `no such file: ${filePath}` : `cannot read ${filePath}`);
  }
  if (!info.isFile()) throw new FileProblem(`not a file: ${filePath}`);
  if (info.size === 0) throw new FileProblem(`the file is empty: ${filePath}`);
  if (info.size > limit) throw new FileProblem(`the file is larger than ${limit} bytes: ${filePath}`);
  const extension = path.extname(filePath).slice(1).toLowerCase();
  const [kindOfName, mime] = TYPES[extension] ?? ['document', 'application/octet-stream'];
  const kind = mediaType ?? kindOfName;
  const url = { url: filePath };
  const words = caption ? { caption } : {};
  const tags = mentions?.length ? { mentions } : {};
  const fits = (wanted) => (mime.startsWith(`${wanted}/`) ? { mimetype: mime } : {});
  switch (kind) {
    case 'image':
      return { image: url, ...fits('image'), ...words, ...tags };
    case 'video':
      return { video: url, ...fits('video'), ...words, ...tags };
    case 'ptt':
    case 'audio': {
      const voice = kind === 'ptt' || extension === 'ogg' || extension === 'opus';
      return { audio: url, mimetype: kindOfName === 'audio' ? mime : TYPES.ogg[1], ptt: voice };
    }
    default:
      return { document: url, mimetype: mime, fileName: fileName || path.basename(filePath), ...words };
  }
}
