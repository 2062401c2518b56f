// The bridge with its real library against a WhatsApp server that nobody here wrote: handshake, encryption, receipts, files.
// Needs the npm package @openclaw/crabline below HERMES_PEERS (default ~/.cache/hermes-peers), in `crabline`.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Run } from './run.js';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const PEERS = process.env.HERMES_PEERS ?? path.join(os.homedir(), '.cache', 'hermes-peers');
const SERVER = path.join(PEERS, 'crabline/node_modules/@openclaw/crabline/dist/src/servers/whatsapp.js');
const ANN = '15551234567@s.whatsapp.net';

const library = await import('@whiskeysockets/baileys').catch(() => undefined);
const peer = await import(pathToFileURL(SERVER)).catch(() => undefined);
const missing = library && peer ? false : `not installed: ${library ? SERVER : '@whiskeysockets/baileys'}`;
if (missing && process.env.HERMES_TEST_PEERS === 'required') throw new Error(missing);

describe('a WhatsApp server of others', { skip: missing, timeout: 120_000 }, () => {
  let folder;
  let server;
  let run;
  let events;
  let waiters;

  const until = async (condition) => {
    while (!condition()) {
      await new Promise((resolve) => {
        waiters.push(resolve);
      });
    }
  };
  const start = async () => {
    run = new Run(
      { folder, path: '' },
      {
        home: folder,
        linked: false,
        env: {
          HERMES_WHATSAPP_SOCKET_MODULE: path.join(HERE, 'peer-socket.js'),
          PEER_WHATSAPP: server.manifest.endpoints.baileysWebSocketUrl,
          WHATSAPP_REPLY_PREFIX: '',
        },
      },
    );
    run.port = (await run.line('listening')).port;
    await run.line('connected');
  };
  const say = async (content) => {
    const answer = await fetch(server.manifest.endpoints.adminInboundUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-crabline-admin-token': server.manifest.adminToken },
      body: JSON.stringify({ chatJid: ANN, senderJid: ANN, ...content }),
    });
    assert.equal(answer.status, 200, await answer.clone().text());
  };
  const stanzas = (tag) => events.filter(({ body }) => body?.tag === tag || body?.attrs?.type === tag);

  beforeEach(async () => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'bridge-peer-'));
    events = [];
    waiters = [];
    server = await peer.startWhatsAppServer({
      recorderPath: path.join(folder, 'recorder.jsonl'),
      onEvent: (event) => {
        events.push(event);
        for (const resolve of waiters.splice(0)) resolve();
      },
    });
    const credentials = {
      ...library.initAuthCreds(),
      me: { id: server.manifest.selfJid.replace('@', ':1@'), name: 'Me' },
      account: {
        details: Buffer.alloc(8),
        accountSignatureKey: Buffer.alloc(32),
        accountSignature: Buffer.alloc(64),
        deviceSignature: Buffer.alloc(64),
      },
    };
    fs.mkdirSync(path.join(folder, 'session'));
    fs.writeFileSync(path.join(folder, 'session', 'creds.json'), JSON.stringify(credentials, library.BufferJSON.replacer));
    await start();
  });
  afterEach(async () => {
    await run.kill();
    await server.close();
    fs.rmSync(folder, { recursive: true, force: true });
  });

  it('gives texts and voice notes, and takes texts', async () => {
    await say({ text: 'hello' });
    const sound = Buffer.from('OggS and so on');
    await say({ audio: { contentBase64: sound.toString('base64'), mimeType: 'audio/ogg; codecs=opus', ptt: true } });
    const [hello, voice] = await run.waiting(2);
    assert.deepEqual([hello.body, hello.chatId, hello.senderName], ['hello', ANN, 'Test User']);
    assert.deepEqual([voice.body, voice.mediaType], ['[ptt received]', 'ptt']);
    assert.deepEqual(fs.readFileSync(voice.mediaUrls[0]), sound);

    assert.equal((await run.post('/typing', { chatId: ANN })).status, 200);
    const { body } = await run.post('/send', {
      chatId: '15551234567',
      message: 'answer',
      messageId: '3EB0PEERTEST0001',
      replyTo: hello.messageId,
    });
    assert.deepEqual(body, { success: true, messageId: '3EB0PEERTEST0001' });
    await until(() => stanzas('text').some(({ body: stanza }) => stanza.attrs.id === '3EB0PEERTEST0001'));
    const again = await run.post('/send', { chatId: '15551234567', message: 'answer', messageId: '3EB0PEERTEST0001' });
    assert.equal(again.body.duplicate, true);
    assert.equal(stanzas('text').filter(({ body: stanza }) => stanza.attrs.id === '3EB0PEERTEST0001').length, 1);
  });

  it('loses and doubles nothing over kills, with one session all the time', async () => {
    const identity = () =>
      JSON.parse(fs.readFileSync(path.join(folder, 'session', 'creds.json'), 'utf8')).signedIdentityKey.public.data;
    const first = identity();
    const got = [];
    const expected = [];
    for (let round = 0; round < 5; round += 1) {
      for (let n = 0; n < 4; n += 1) {
        expected.push(`r${round}n${n}`);
        await say({ text: `r${round}n${n}` });
      }
      const batch = await run.waiting(4);
      if (round % 2 === 0) {
        got.push(...batch.map(({ body }) => body));
        await run.post('/ack', { ids: batch.map(({ ackId }) => ackId) });
      }
      await run.kill();
      expected.push(`away${round}`);
      await say({ text: `away${round}` });
      await start();
      await run.waiting(1);
    }
    while (got.length < expected.length) {
      const batch = await run.waiting(1);
      got.push(...batch.map(({ body }) => body));
      await run.post('/ack', { ids: batch.map(({ ackId }) => ackId) });
    }
    assert.deepEqual(got, expected);
    assert.deepEqual((await run.get('/messages?ack=1')).body, []);
    assert.deepEqual(identity(), first);
  });
});
