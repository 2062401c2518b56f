// What the bridge relies on in the installed library. Skipped where it is not installed (`npm ci` installs it).

import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { createRequire } from 'node:module';
import * as socket from '../baileys-socket.js';
import { LidMapping, isLinked, openSession } from '../session.js';
import { translate } from '../inbound.js';
import { ANN, GROUP, ME } from './service.js';
import { BRIDGE } from './run.js';

const library = await import('@whiskeysockets/baileys').catch(() => undefined);

describe('the library', { skip: library ? false : 'the library is not installed', timeout: 60_000 }, () => {
  let folder;
  beforeEach(() => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'bridge-library-'));
  });
  afterEach(() => fs.rmSync(folder, { recursive: true, force: true }));

  const codec = () => ({
    replacer: library.BufferJSON.replacer,
    reviver: library.BufferJSON.reviver,
    freshCredentials: library.initAuthCreds,
    syncKey: (value) => library.proto.Message.AppStateSyncKeyData.fromObject(value),
  });
  const fail = (error) => assert.fail(error);

  it('has the version that package.json pins', async () => {
    const pinned = createRequire(import.meta.url)('../package.json').dependencies['@whiskeysockets/baileys'];
    assert.deepEqual(await socket.load(), { library: 'baileys', version: pinned });
  });

  it('shares the format of the session folder, both ways', async () => {
    const theirs = await library.useMultiFileAuthState(folder);
    theirs.state.creds.me = { id: '1:2@s.whatsapp.net', name: 'Me' };
    theirs.state.creds.account = { details: Buffer.from('d') };
    await theirs.saveCreds();
    await theirs.state.keys.set({
      session: { '49170:1/x': Buffer.from([1, 2, 255]) },
      'lid-mapping': { 4917011111111: '900000000022', '900000000022_reverse': '4917011111111' },
      'app-state-sync-key': { AAA: { keyData: Buffer.from('k'), timestamp: 5 } },
    });
    assert.equal(isLinked(folder), true);
    const ours = openSession(folder, codec(), fail);
    assert.deepEqual(JSON.stringify(ours.creds, codec().replacer), JSON.stringify(theirs.state.creds, codec().replacer));
    assert.deepEqual(await ours.keys.get('session', ['49170:1/x', 'none']), { '49170:1/x': Buffer.from([1, 2, 255]), none: null });
    assert.ok((await ours.keys.get('app-state-sync-key', ['AAA'])).AAA instanceof library.proto.Message.AppStateSyncKeyData);
    const mapping = new LidMapping(folder);
    assert.deepEqual(
      [mapping.lidOf('4917011111111'), mapping.phoneOf('900000000022'), mapping.phoneOf('../creds')],
      ['900000000022', '4917011111111', undefined],
    );

    await ours.keys.set({ session: { '49170:1/x': null, 'b:0': Buffer.from([9]) } });
    ours.creds.me.name = 'New';
    ours.saveCredentials();
    const again = await library.useMultiFileAuthState(folder);
    assert.equal(again.state.creds.me.name, 'New');
    const { 'b:0': kept, ...gone } = await again.state.keys.get('session', ['49170:1/x', 'b:0']);
    assert.deepEqual([kept, gone['49170:1/x']], [Buffer.from([9]), null]);
    for (const name of ['creds.json', 'session-b-0.json']) assert.equal(fs.statSync(path.join(folder, name)).mode & 0o777, 0o600);
    assert.deepEqual(
      fs.readdirSync(folder).filter((name) => name.endsWith('.tmp')),
      [],
    );
  });

  it('does not replace credentials that cannot be read', () => {
    fs.writeFileSync(path.join(folder, 'creds.json'), '{"me":');
    assert.throws(() => openSession(folder, codec(), fail), /creds\.json is not readable/);
    assert.equal(fs.readFileSync(path.join(folder, 'creds.json'), 'utf8'), '{"me":');
  });

  it('gives messages that survive a restart', () => {
    const raw = {
      key: { remoteJid: GROUP, id: 'A', fromMe: false, participant: '900@lid', participantAlt: ANN },
      pushName: 'Ann',
      messageTimestamp: 1763560000,
      message: library.proto.Message.fromObject({
        imageMessage: {
          mimetype: 'image/png',
          caption: 'see',
          fileLength: 77,
          mediaKey: Buffer.alloc(32, 7),
          directPath: '/v/x',
          url: 'https://mmg.whatsapp.net/x',
          contextInfo: { mentionedJid: [ME] },
        },
      }),
    };
    const self = { id: ME };
    const before = translate(raw, self);
    const thawed = socket.thaw(socket.freeze(raw));
    assert.deepEqual(translate(thawed, self), before);
    assert.deepEqual(Buffer.from(thawed.message.imageMessage.mediaKey), Buffer.alloc(32, 7));
    assert.deepEqual(
      [before.message.body, before.message.senderAltId, before.message.mentionsMe, before.media.bytes],
      ['see', ANN, true, 77],
    );
  });

  it('makes the contents that the bridge sends', async () => {
    const file = path.join(folder, 'a.txt');
    fs.writeFileSync(file, 'x');
    const options = { userJid: ME, upload: async () => ({ mediaUrl: 'https://mmg.whatsapp.net/y', directPath: '/y' }) };
    const make = (content, more) => library.generateWAMessage(ANN, content, { ...options, ...more });
    const kind = (message) => library.getContentType(library.normalizeMessageContent(message.message));
    const edit = await make(
      { text: 'new', linkPreview: null, edit: { remoteJid: ANN, id: 'X', fromMe: true } },
      { messageId: 'HERMES1' },
    );
    assert.equal(edit.key.id, 'HERMES1');
    assert.equal(translate({ ...edit, key: { ...edit.key, fromMe: false } }, {}).message.event, 'edit');
    const reaction = await make({ react: { text: '👍', key: { remoteJid: ANN, id: 'X', fromMe: false } } });
    assert.equal(translate(reaction, {}).message.emoji, '👍');
    const removal = await make({ delete: { remoteJid: ANN, id: 'X', fromMe: true } });
    assert.deepEqual([translate(removal, {}).message.event, translate(removal, {}).message.targetId], ['delete', 'X']);
    const answer = await make(
      { text: 'a', linkPreview: null },
      { quoted: { key: { remoteJid: ANN, id: 'Q', fromMe: false }, message: { conversation: 'q' } } },
    );
    assert.deepEqual([translate(answer, {}).message.quotedId, translate(answer, {}).message.quotedText], ['Q', 'q']);
    const paper = await make({ document: { url: file }, mimetype: 'text/plain', fileName: 'a.txt', caption: 'c' });
    assert.equal(translate(paper, {}).message.fileName, 'a.txt');
    assert.equal(kind(await make({ location: { degreesLatitude: 1, degreesLongitude: 2 } })), 'locationMessage');
  });

  it('reports messages to the bridge before it buffers them', async () => {
    const events = [];
    fs.writeFileSync(
      path.join(folder, 'creds.json'),
      JSON.stringify({ ...library.initAuthCreds(), me: { id: ME }, account: {} }, library.BufferJSON.replacer),
    );
    let makers;
    const connection = await socket.connect({
      sessionFolder: folder,
      getSent: () => undefined,
      onEvent: (event) => events.push(event),
      onWriteError: fail,
      onSocket: (made) => (makers = made),
    });
    try {
      makers.ev.buffer();
      makers.ev.emit('messages.upsert', {
        type: 'append',
        messages: [{ key: { remoteJid: ANN, id: 'B' }, message: { conversation: 'x' } }],
      });
      const [event] = events.filter(({ type }) => type === 'messages');
      assert.equal(event.messages[0].key.id, 'B');
      assert.equal(event.self.id, ME);
    } finally {
      await connection.close();
    }
  });

  it('is loaded by --check', async () => {
    const child = spawn(process.execPath, [BRIDGE, '--check'], { stdio: ['ignore', 'pipe', 'ignore'] });
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      said += chunk;
    });
    const [code] = await once(child, 'close');
    assert.equal(code, 0);
    assert.equal(JSON.parse(said.split('\n')[0]).library, 'baileys');
  });
});
