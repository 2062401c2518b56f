import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { ANN, GROUP, ME, Service, text } from './service.js';
import { Run } from './run.js';

describe('requests', { timeout: 60_000 }, () => {
  let service;
  let run;
  const start = async (options) => {
    if (run) await run.kill();
    run = await Run.connected(service, { env: { WHATSAPP_REPLY_PREFIX: '' }, ...options });
    return run;
  };
  beforeEach(async () => {
    run = undefined;
    service = await Service.start();
  });
  afterEach(async () => {
    await run?.kill();
    await service.stop();
  });

  it('sends a text and returns its id', async () => {
    await start();
    const { status, body } = await run.post('/send', { chatId: ANN, message: 'hi', mentions: ['4917011111111'] });
    assert.equal(status, 200);
    assert.equal(body.success, true);
    assert.match(body.messageId, /^3EB0[0-9A-F]{18}$/);
    assert.deepEqual(service.sent, [{ chat: ANN, content: { text: 'hi', mentions: [ANN] }, id: body.messageId }]);
  });

  it('puts the header before answers: the default one, none, or a configured one', async () => {
    for (const [env, expected] of [
      [{}, `⚕ *Hermes Agent*\n${'─'.repeat(12)}\nhi`],
      [{ WHATSAPP_REPLY_PREFIX: '' }, 'hi'],
      [{ WHATSAPP_REPLY_PREFIX: 'Bot:\\n' }, 'Bot:\nhi'],
    ]) {
      await start({ env });
      await run.post('/send', { chatId: ANN, message: 'hi' });
      assert.equal(service.sent.at(-1).content.text, expected);
    }
  });

  it('sends nothing twice under one id, also after a kill', async () => {
    await start();
    const first = await run.post('/send', { chatId: ANN, message: 'once', messageId: 'HERMES0001' });
    assert.deepEqual(first.body, { success: true, messageId: 'HERMES0001' });
    await start({ home: run.home });
    const again = await run.post('/send', { chatId: ANN, message: 'once', messageId: 'HERMES0001' });
    assert.deepEqual(again.body, { success: true, messageId: 'HERMES0001', duplicate: true });
    assert.equal(service.sent.length, 1);
  });

  it('says that the outcome of a failed send is unknown, and repeats it under the same id', async () => {
    await start();
    service.failSends = 1;
    const failed = await run.post('/send', { chatId: ANN, message: 'x', messageId: 'HERMES0002' });
    assert.deepEqual(
      [failed.status, failed.body],
      [500, { error: 'Connection Closed', messageId: 'HERMES0002', outcome: 'unknown' }],
    );
    assert.equal((await run.post('/send', { chatId: ANN, message: 'x', messageId: 'HERMES0002' })).status, 200);
    assert.deepEqual(
      service.sent.map(({ id }) => id),
      ['HERMES0002'],
    );
  });

  it('answers a phone that asks for a sent message again, also after a restart', async () => {
    await start();
    const { body } = await run.post('/send', { chatId: ANN, message: 'x' });
    await start({ home: run.home });
    service.emit({ type: 'group', id: GROUP, retry: body.messageId });
    await service.until(() => service.calls.some(({ name }) => name === 'retry'));
    assert.equal(JSON.parse(service.calls.find(({ name }) => name === 'retry').arguments).key.id, body.messageId);
  });

  it('quotes received and sent messages, in groups with their author', async () => {
    await start();
    service.deliver(text('question', { id: 'Q1', from: GROUP, key: { participant: '4917011111111:3@s.whatsapp.net' } }));
    await run.waiting();
    await start({ home: run.home });
    await run.post('/send', { chatId: GROUP, message: 'answer', replyTo: 'Q1', messageId: 'HERMES0003' });
    assert.deepEqual(service.sent[0].quoted, {
      key: { remoteJid: GROUP, id: 'Q1', fromMe: false, participant: ANN },
      message: { conversation: 'question' },
    });
    await run.post('/send', { chatId: GROUP, message: 'more', replyTo: 'HERMES0003' });
    assert.deepEqual(service.sent[1].quoted, {
      key: { remoteJid: GROUP, id: 'HERMES0003', fromMe: true },
      message: { conversation: 'answer' },
    });
    await run.post('/send', { chatId: GROUP, message: 'lost', replyTo: 'NOBODY' });
    assert.equal(service.sent[2].quoted, undefined);
    await run.post('/send', { chatId: GROUP, message: 'told', replyTo: 'NOBODY', replyToSender: ANN, replyToText: 'why?' });
    assert.deepEqual(service.sent[3].quoted, {
      key: { remoteJid: GROUP, id: 'NOBODY', fromMe: false, participant: ANN },
      message: { conversation: 'why?' },
    });
  });

  it('edits, reacts, deletes, marks as read, shows typing and sends places', async () => {
    await start();
    service.deliver(text('hello', { id: 'IN1', from: GROUP, key: { participant: ANN } }));
    await run.waiting();
    assert.deepEqual((await run.post('/edit', { chatId: ANN, messageId: 'OUT1', message: 'new' })).body, {
      success: true,
      messageId: 'OUT1',
    });
    assert.deepEqual(service.sent[0].content, { text: 'new', edit: { remoteJid: ANN, id: 'OUT1', fromMe: true } });
    await run.post('/react', { chatId: GROUP, messageId: 'IN1', emoji: '✅' });
    assert.deepEqual(service.sent[1].content, {
      react: { text: '✅', key: { remoteJid: GROUP, id: 'IN1', fromMe: false, participant: ANN } },
    });
    await run.post('/delete', { chatId: ANN, messageId: 'OUT1' });
    assert.deepEqual(service.sent[2].content, { delete: { remoteJid: ANN, id: 'OUT1', fromMe: true } });
    await run.post('/send', { chatId: ANN, location: { latitude: 1.5, longitude: -2, name: 'Pier' } });
    assert.deepEqual(service.sent[3].content, { location: { degreesLatitude: 1.5, degreesLongitude: -2, name: 'Pier' } });
    await run.post('/read', { chatId: GROUP, messageIds: ['IN1'] });
    assert.deepEqual(service.calls.find(({ name }) => name === 'read').arguments.keys, [
      { remoteJid: GROUP, id: 'IN1', fromMe: false, participant: ANN },
    ]);
    assert.deepEqual((await run.post('/typing', { chatId: ANN })).body, { success: true });
    assert.deepEqual(service.calls.find(({ name }) => name === 'presence').arguments, { chat: ANN, state: 'composing' });
  });

  it('describes chats', async () => {
    await start();
    assert.deepEqual((await run.get(`/chat/${encodeURIComponent(GROUP)}`)).body, {
      name: 'Family',
      isGroup: true,
      participants: [ANN, ME],
      description: 'All of us',
    });
    assert.deepEqual((await run.get(`/chat/${ANN}`)).body, { name: '4917011111111', isGroup: false, participants: [] });
    assert.equal((await run.get('/chat/999@g.us')).status, 500);
    assert.equal((await run.get('/chat/%E0%A4%A')).status, 400);
  });

  it('sends files by their kind', async () => {
    await start();
    const file = (name) => {
      const place = path.join(service.folder, name);
      fs.writeFileSync(place, 'data');
      return place;
    };
    const cases = [
      ['a.png', {}, (url) => ({ image: { url }, mimetype: 'image/png', caption: 'c' })],
      ['a.mp4', {}, (url) => ({ video: { url }, mimetype: 'video/mp4', caption: 'c' })],
      [
        'a.pdf',
        { fileName: 'x/y.pdf' },
        (url) => ({ document: { url }, mimetype: 'application/pdf', fileName: 'x_y.pdf', caption: 'c' }),
      ],
      [
        'a.png',
        { mediaType: 'document' },
        (url) => ({ document: { url }, mimetype: 'image/png', fileName: 'a.png', caption: 'c' }),
      ],
      ['a.odd', {}, (url) => ({ document: { url }, mimetype: 'application/octet-stream', fileName: 'a.odd', caption: 'c' })],
    ];
    for (const [name, fields, content] of cases) {
      const filePath = file(name);
      const { status } = await run.post('/send-media', { chatId: ANN, filePath, caption: 'c', ...fields });
      assert.equal(status, 200, name);
      assert.deepEqual(service.sent.at(-1).content, content(filePath));
    }
    const voice = file('a.ogg');
    await run.post('/send-media', { chatId: ANN, filePath: voice, mediaType: 'audio', caption: 'words', messageId: 'HERMES0009' });
    assert.deepEqual(
      service.sent.slice(-2).map(({ content, id }) => [content, id]),
      [
        [{ audio: { url: voice }, mimetype: 'audio/ogg; codecs=opus', ptt: true }, 'HERMES0009'],
        [{ text: 'words' }, 'HERMES0009C'],
      ],
    );
    const song = file('a.mp3');
    await run.post('/send-media', { chatId: ANN, filePath: song });
    assert.deepEqual(service.sent.at(-1).content, { audio: { url: song }, mimetype: 'audio/mpeg', ptt: false });
  });

  it('refuses files that it cannot send', async () => {
    await start({ args: ['--max-media-mb', '1'] });
    const large = path.join(service.folder, 'large.bin');
    fs.writeFileSync(large, Buffer.alloc(1024 * 1024 + 1));
    const empty = path.join(service.folder, 'empty.txt');
    fs.writeFileSync(empty, '');
    for (const [filePath, status] of [
      ['relative.txt', 400],
      [path.join(service.folder, 'none'), 404],
      [service.folder, 400],
      [large, 400],
      [empty, 400],
      [7, 400],
      [undefined, 400],
    ]) {
      assert.equal((await run.post('/send-media', { chatId: ANN, filePath })).status, status, String(filePath));
    }
    assert.equal(service.sent.length, 0);
  });

  it('answers malformed requests with what is wrong', async () => {
    await start();
    const cases = [
      ['POST', '/send', '{', 400, /JSON/],
      ['POST', '/send', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 400, /JSON/],
      ['POST', '/send', '[]', 400, /object/],
      ['POST', '/send', 'null', 400, /object/],
      ['POST', '/send', '', 400, /JSON/],
      ['POST', '/send', { message: 'x' }, 400, /chatId/],
      ['POST', '/send', { chatId: ANN }, 400, /message/],
      ['POST', '/send', { chatId: ANN, message: 7 }, 400, /message/],
      ['POST', '/send', { chatId: 'status@broadcast', message: 'x' }, 400, /chatId/],
      ['POST', '/send', { chatId: '../x', message: 'x' }, 400, /chatId/],
      ['POST', '/send', { chatId: ANN, message: 'x', messageId: 'a b' }, 400, /messageId/],
      ['POST', '/send', { chatId: ANN, message: 'x', replyTo: {} }, 400, /replyTo/],
      ['POST', '/send', { chatId: ANN, message: 'x', mentions: 'all' }, 400, /mentions/],
      ['POST', '/send', { chatId: ANN, location: { latitude: 91, longitude: 0 } }, 400, /location/],
      ['POST', '/send', { chatId: ANN, message: 'x'.repeat(65537) }, 400, /65536/],
      ['POST', '/edit', { chatId: ANN, message: 'x' }, 400, /messageId/],
      ['POST', '/send-media', { chatId: ANN, filePath: '/x', mediaType: 'hologram' }, 400, /mediaType/],
      ['POST', '/react', { chatId: ANN, messageId: 'X' }, 400, /emoji/],
      ['POST', '/typing', {}, 400, /chatId/],
      ['POST', '/typing', { chatId: ANN, state: 'sleeping' }, 400, /state/],
      ['POST', '/ack', { ids: 'x' }, 400, /ids/],
      ['POST', '/ack', { ids: [1] }, 400, /ids/],
      ['POST', '/read', { chatId: ANN, messageIds: [] }, 400, /messageIds/],
      ['POST', '/nothing', {}, 404, /endpoint/],
      ['POST', '/constructor', {}, 404, /endpoint/],
      ['GET', '/send', undefined, 405, /POST/],
      ['POST', '/messages', {}, 405, /GET/],
      ['DELETE', '/health', undefined, 405, /GET/],
    ];
    for (const [method, target, body, status, pattern] of cases) {
      const answer = await run.request(method, target, body);
      assert.equal(answer.status, status, `${method} ${target} ${JSON.stringify(body)?.slice(0, 80)}`);
      assert.match(answer.body.error, pattern);
    }
    assert.equal(service.sent.length, 0);
    assert.equal((await run.get('/health')).body.status, 'connected');
  });

  it('limits the size of a body', async () => {
    await start();
    const answer = await run.post('/send', `{"chatId":"${ANN}","message":"${'x'.repeat(1024 * 1024)}"}`).catch(({ code }) => code);
    assert.ok(answer.status === 413 || answer === 'ECONNRESET' || answer === 'EPIPE', JSON.stringify(answer));
    assert.equal((await run.get('/health')).status, 200);
  });

  it('refuses web pages', async () => {
    await start();
    service.deliver(text('secret'));
    await run.waiting();
    assert.equal((await run.get('/messages', { origin: 'https://example.org' })).status, 403);
    assert.equal((await run.get('/messages', { host: 'rebound.example.org' })).status, 403);
    assert.equal((await run.get('/health')).body.queueLength, 1);
  });

  it('asks for the token it was given', async () => {
    run = new Run(service, { stdin: '{"token":"0123456789abcdef0123"}\n' });
    run.port = (await run.line('listening')).port;
    await run.line('connected');
    for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: '0123456789abcdef0123' }]) {
      assert.equal((await run.get('/messages', headers)).status, 401);
      assert.equal((await run.post('/send', { chatId: ANN, message: 'x' }, headers)).status, 401);
      assert.deepEqual(Object.keys((await run.get('/health', headers)).body), ['status', 'queueLength', 'uptime']);
    }
    assert.equal((await run.get('/messages', { authorization: 'Bearer 0123456789abcdef0123' })).status, 200);
  });

  it('keeps the order of one chat', async () => {
    await start();
    const bodies = Array.from({ length: 20 }, (_, n) => `m${n}`);
    const requests = [];
    for (const message of bodies) {
      requests.push(run.post('/send', { chatId: ANN, message }));
      await service.until(() => service.sent.length === requests.length);
    }
    await Promise.all(requests);
    assert.deepEqual(
      service.sent.map(({ content }) => content.text),
      bodies,
    );
  });

  it('answers 503 while it is not connected', async () => {
    await start();
    service.open = false;
    service.emit({ type: 'close', code: 428, text: 'Connection Closed' });
    await run.line('disconnected');
    const answer = await run.post('/send', { chatId: ANN, message: 'x' });
    assert.deepEqual([answer.status, answer.body], [503, { error: 'Not connected to WhatsApp' }]);
    const { body } = await run.get('/health');
    assert.deepEqual([body.status, body.lastDisconnect.code], ['disconnected', 428]);
  });
});
