import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync, spawnSync } from 'node:child_process';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { ANN, GROUP, ME, MY_LID, Service, text } from './service.js';
import { Run } from './run.js';

const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;
const STRANGER = '4917099999999@s.whatsapp.net';

describe('received messages', { timeout: 60_000 }, () => {
  let service;
  const runs = [];
  const start = async (options) => {
    const run = await Run.connected(service, options);
    runs.push(run);
    return run;
  };
  beforeEach(async () => {
    service = await Service.start();
  });
  afterEach(async () => {
    await Promise.all(runs.splice(0).map((run) => run.kill()));
    await service.stop();
  });

  it('has the fields of the contract', async () => {
    const run = await start();
    service.deliver(text('hello', { id: 'A1' }));
    const [message] = await run.waiting();
    const { ackId, timestamp, ...rest } = message;
    assert.match(ackId, /^[0-9a-f]{8}-\d+$/);
    assert.ok(Number.isInteger(timestamp));
    assert.deepEqual(rest, {
      messageId: 'A1',
      chatId: ANN,
      senderId: ANN,
      senderName: 'Ann',
      chatName: 'Ann',
      isGroup: false,
      body: 'hello',
      hasMedia: false,
      mediaType: '',
      mediaUrls: [],
      event: 'message',
    });
  });

  it('empties the queue for a consumer that does not acknowledge, a hundred at a time', async () => {
    const run = await start();
    for (let n = 0; n < 130; n += 1) service.deliver(text(`m${n}`));
    await service.until(() => service.undelivered === 0);
    const first = (await run.get('/messages')).body;
    const second = (await run.get('/messages')).body;
    const third = (await run.get('/messages')).body;
    assert.deepEqual([first.length, second.length, third.length], [100, 30, 0]);
    assert.deepEqual(
      [...first, ...second].map(({ body }) => body),
      Array.from({ length: 130 }, (_, n) => `m${n}`),
    );
    assert.equal(first[0].ackId, undefined);
  });

  it('keeps messages until they are acknowledged', async () => {
    const run = await start();
    service.deliver(text('one'));
    service.deliver(text('two'));
    const [one] = await run.waiting(2);
    assert.deepEqual((await run.post('/ack', { ids: [one.ackId, 'unknown', one.ackId] })).body, {
      success: true,
      acknowledged: 1,
      queueLength: 1,
    });
    const left = (await run.get('/messages?ack=1')).body;
    assert.deepEqual(
      left.map(({ body }) => body),
      ['two'],
    );
    assert.equal((await run.post('/ack', { ids: [one.ackId] })).body.acknowledged, 0);
  });

  it('loses and doubles nothing when it is killed between hand-out and acknowledgement', async () => {
    const committed = [];
    const seen = new Set();
    let run = await start();
    for (let round = 0; round < 12; round += 1) {
      for (let n = 0; n < 5; n += 1) service.deliver(text(`r${round}n${n}`, { id: `R${round}N${n}` }));
      const batch = await run.waiting();
      // The consumer commits by the platform's key, as it must for a message whose acknowledgement was lost.
      for (const { messageId, body } of batch) if (!seen.has(messageId)) committed.push(body) && seen.add(messageId);
      if (round % 3 === 0) await run.post('/ack', { ids: batch.map(({ ackId }) => ackId) });
      if (round % 3 === 1) run.post('/ack', { ids: batch.map(({ ackId }) => ackId) }).catch(() => {});
      await run.kill();
      run = await start({ home: run.home });
    }
    await service.until(() => service.undelivered === 0);
    for (;;) {
      const { body: batch } = await run.get('/messages?ack=1');
      if (batch.length === 0) break;
      for (const { messageId, body } of batch) if (!seen.has(messageId)) committed.push(body) && seen.add(messageId);
      await run.post('/ack', { ids: batch.map(({ ackId }) => ackId) });
    }
    const expected = Array.from({ length: 12 }, (_, r) => Array.from({ length: 5 }, (_, n) => `r${r}n${n}`)).flat();
    assert.deepEqual(committed, expected);
    // Nothing that was acknowledged is handed out again, also when WhatsApp delivers it once more.
    service.deliver(text('r0n0', { id: 'R0N0' }));
    await service.until(() => service.undelivered === 0);
    assert.deepEqual((await run.get('/messages?ack=1')).body, []);
  });

  it('hands out each message exactly once over kills after acknowledgements', async () => {
    const counts = new Map();
    let run = await start();
    for (let round = 0; round < 6; round += 1) {
      service.deliver(text(`m${round}`));
      const batch = await run.waiting();
      for (const { body } of batch) counts.set(body, (counts.get(body) ?? 0) + 1);
      await run.post('/ack', { ids: batch.map(({ ackId }) => ackId) });
      await run.kill();
      run = await start({ home: run.home });
    }
    assert.deepEqual((await run.get('/messages?ack=1')).body, []);
    assert.deepEqual([...counts.values()], [1, 1, 1, 1, 1, 1]);
  });

  it('loses and doubles nothing when it is killed while messages arrive', async () => {
    let run = await start();
    const expected = [];
    for (let round = 0; round < 8; round += 1) {
      for (let n = 0; n < 10; n += 1) {
        const id = `R${round}N${n}`;
        expected.push(id);
        service.files.set(id, Buffer.from(id));
        const content = n % 3 === 0 ? { imageMessage: { mimetype: 'image/png' } } : undefined;
        service.deliver(text(id, { id, content }));
      }
      const taken = round * 10 + round;
      await service.until(() => service.taken >= Math.min(taken, 40));
      await run.kill();
      run = await start({ home: run.home });
    }
    const batch = await run.waiting(expected.length);
    assert.deepEqual(
      batch.map(({ messageId }) => messageId),
      expected,
    );
    for (const { messageId, hasMedia, mediaUrls } of batch) {
      if (hasMedia) assert.equal(fs.readFileSync(mediaUrls[0], 'utf8'), messageId);
    }
    await run.post('/ack', { ids: batch.map(({ ackId }) => ackId) });
    assert.equal(service.undelivered, 0);
  });

  it('ignores a torn last line of the queue', async () => {
    let run = await start();
    service.deliver(text('whole'));
    await run.waiting();
    await run.kill();
    const file = path.join(run.home, 'bridge-queue.jsonl');
    fs.appendFileSync(file, '{"t":"msg","k":"torn","id":"0000');
    run = await start({ home: run.home });
    service.deliver(text('after'));
    assert.deepEqual(
      (await run.waiting(2)).map(({ body }) => body),
      ['whole', 'after'],
    );
  });

  it('never uses an acknowledgement id of a removed queue again', async () => {
    let run = await start();
    service.deliver(text('one'));
    const [one] = await run.waiting();
    await run.kill();
    fs.rmSync(path.join(run.home, 'bridge-queue.jsonl'));
    run = await start({ home: run.home });
    service.deliver(text('two'));
    await run.waiting();
    assert.equal((await run.post('/ack', { ids: [one.ackId] })).body.acknowledged, 0);
  });

  it('rewrites a queue that grew without losing what it knows', async () => {
    let run = await start();
    const large = 'x'.repeat(60_000);
    service.deliver(text('kept', { id: 'KEPT' }));
    for (let n = 0; n < 40; n += 1) {
      service.deliver(text(large, { id: `L${n}` }));
      await service.until(() => service.undelivered === 0);
      const { body: batch } = await run.get('/messages?ack=1');
      await run.post('/ack', { ids: batch.filter(({ messageId }) => messageId !== 'KEPT').map(({ ackId }) => ackId) });
    }
    assert.ok(fs.statSync(path.join(run.home, 'bridge-queue.jsonl')).size < 1024 * 1024 + 200_000);
    await run.kill();
    run = await start({ home: run.home });
    service.deliver(text('again', { id: 'L3' }));
    await service.until(() => service.undelivered === 0);
    assert.deepEqual(
      (await run.get('/messages?ack=1')).body.map(({ body }) => body),
      ['kept'],
    );
  });

  it(
    'keeps messages while the disk is full, and writes them when it is not',
    { skip: hasPrlimit ? false : 'no prlimit here' },
    async () => {
      let run = await start();
      const limit = (bytes) => execFileSync('prlimit', ['--pid', String(run.child.pid), `--fsize=${bytes}`]);
      service.deliver(text('before', { id: 'BEFORE' }));
      const [before] = await run.waiting();
      const file = path.join(run.home, 'bridge-queue.jsonl');
      limit(`${fs.statSync(file).size + 100}:unlimited`);
      service.deliver(text('during', { id: 'DURING' }));
      assert.deepEqual(
        (await run.waiting(2)).map(({ body }) => body),
        ['before', 'during'],
      );
      assert.equal((await run.get('/health')).body.diskFailing, true);
      assert.equal((await run.post('/ack', { ids: [before.ackId] })).status, 500);
      assert.equal((await run.get('/health')).body.queueLength, 2);
      limit('unlimited:unlimited');
      assert.equal((await run.post('/ack', { ids: [before.ackId] })).status, 200);
      assert.equal((await run.get('/health')).body.diskFailing, false);
      service.deliver(text('after', { id: 'AFTER' }));
      await run.waiting(2);
      await run.kill();
      run = await start({ home: run.home });
      assert.deepEqual(
        (await run.waiting(2)).map(({ body }) => body),
        ['during', 'after'],
      );
    },
  );

  it('waits for a message when it is asked to', async () => {
    const run = await start();
    const request = run.get('/messages?ack=1&wait=30');
    await run.get('/health');
    service.deliver(text('late'));
    assert.deepEqual(
      (await request).body.map(({ body }) => body),
      ['late'],
    );
    assert.equal((await run.get('/messages?wait=31')).status, 400);
    assert.equal((await run.get('/messages?wait=no')).status, 400);
  });

  it('stops receiving when too much waits, and goes on after acknowledgements', async () => {
    const run = await start({ args: ['--max-queue', '4'] });
    for (let n = 0; n < 4; n += 1) service.deliver(text(`m${n}`));
    await run.line('paused');
    assert.equal((await run.get('/health')).body.status, 'disconnected');
    service.deliver(text('m4'));
    const batch = (await run.get('/messages?ack=1')).body;
    assert.equal(batch.length, 4);
    await run.post('/ack', { ids: batch.map(({ ackId }) => ackId) });
    await run.line('connected', 1);
    assert.deepEqual(
      (await run.waiting()).map(({ body }) => body),
      ['m4'],
    );
  });

  it('fetches files into a private folder, also after a kill during the download', async () => {
    let run = await start();
    service.files.set('PIC', 'hold');
    service.deliver(text('', { id: 'PIC', content: { imageMessage: { mimetype: 'image/png', fileLength: 5, caption: 'look' } } }));
    service.deliver(text('behind', { id: 'TXT' }));
    await service.until(() => service.calls.some(({ name }) => name === 'download') && service.undelivered === 0);
    assert.equal((await run.get('/health')).body.pending, 2);
    await run.kill();
    service.files.set('PIC', Buffer.from('bytes'));
    run = await start({ home: run.home });
    const [picture, behind] = await run.waiting(2);
    assert.equal(behind.body, 'behind');
    assert.deepEqual([picture.body, picture.hasMedia, picture.mediaType, picture.mimeType], ['look', true, 'image', 'image/png']);
    const [file] = picture.mediaUrls;
    assert.ok(file.endsWith('.png'));
    assert.equal(fs.readFileSync(file, 'utf8'), 'bytes');
    assert.equal(fs.statSync(file).mode & 0o777, 0o600);
    assert.equal(fs.statSync(path.dirname(file)).mode & 0o777, 0o700);
    assert.equal(fs.statSync(path.join(run.home, 'bridge-queue.jsonl')).mode & 0o777, 0o600);
  });

  it('keeps the order of a chat when new messages arrive before the old ones are complete', async () => {
    let run = await start();
    service.files.set('PIC', 'hold');
    service.deliver(text('', { id: 'PIC', content: { imageMessage: { mimetype: 'image/png' } } }));
    await service.until(() => service.undelivered === 0);
    await run.kill();
    service.files.set('PIC', Buffer.from('bytes'));
    service.open = false;
    run = new Run(service, { home: run.home });
    runs.push(run);
    run.port = (await run.line('listening')).port;
    service.deliver(text('newer', { id: 'TXT' }));
    service.deliver(text('of another chat', { id: 'OTHER', from: STRANGER }));
    await service.until(() => service.undelivered === 0);
    assert.deepEqual(
      (await run.get('/messages?ack=1')).body.map(({ body }) => body),
      ['of another chat'],
    );
    service.emit({ type: 'open', self: { id: ME } });
    assert.deepEqual(
      (await run.waiting(3)).map(({ messageId }) => messageId),
      ['OTHER', 'PIC', 'TXT'],
    );
  });

  it('names kinds of files, and keeps the text when a file cannot be had', async () => {
    const run = await start({ args: ['--max-media-mb', '1'] });
    service.files.set('VOICE', Buffer.from('opus'));
    service.files.set('DOC', Buffer.from('text'));
    service.files.set('HUGE', Buffer.alloc(1024 * 1024 + 1));
    const cases = [
      ['VOICE', { audioMessage: { ptt: true, mimetype: 'audio/ogg; codecs=opus', seconds: 3 } }, ['[ptt received]', 'ptt', '.ogg']],
      [
        'DOC',
        { documentMessage: { fileName: '../../evil/notes.TXT', mimetype: 'text/plain' } },
        ['[document received]', 'document', '.txt'],
      ],
      ['HUGE', { videoMessage: { mimetype: 'video/mp4', caption: 'clip' } }, ['clip', 'video', undefined]],
      ['GONE', { stickerMessage: { mimetype: 'image/webp' } }, ['[sticker received]', 'image', undefined]],
      ['LIED', { imageMessage: { mimetype: 'image/jpeg', fileLength: 9e9 } }, ['[image received]', 'image', undefined]],
    ];
    for (const [id, content] of cases) service.deliver(text('', { id, content }));
    const messages = await run.waiting(cases.length);
    cases.forEach(([id, , [body, kind, ending]], n) => {
      const message = messages[n];
      assert.deepEqual([message.messageId, message.body, message.mediaType, message.hasMedia], [id, body, kind, true]);
      if (ending)
        assert.ok(message.mediaUrls[0].endsWith(ending) && path.dirname(message.mediaUrls[0]) === path.join(run.home, 'media'));
      else assert.ok(message.mediaUrls.length === 0 && message.mediaError, JSON.stringify(message));
    });
    assert.equal(messages[1].fileName, '../../evil/notes.TXT');
    assert.equal(fs.readdirSync(path.join(run.home, 'media')).filter((name) => name.endsWith('.part')).length, 0);
  });

  it('tells groups, mentions, quotes, places, contacts and wrapped contents', async () => {
    const run = await start();
    const inGroup = { from: GROUP, key: { participant: '900000000009@lid', participantAlt: ANN } };
    service.deliver(
      text('', {
        ...inGroup,
        content: { extendedTextMessage: { text: '@Me look', contextInfo: { mentionedJid: ['900000000001@lid'] } } },
      }),
    );
    service.deliver(
      text('', {
        ...inGroup,
        content: {
          ephemeralMessage: {
            message: {
              extendedTextMessage: {
                text: 'yes',
                contextInfo: { stanzaId: 'OLD', participant: ME, quotedMessage: { conversation: 'sure?' } },
              },
            },
          },
        },
      }),
    );
    service.deliver(text('', { content: { locationMessage: { degreesLatitude: 52.5, degreesLongitude: 13.4, name: 'Home' } } }));
    service.deliver(
      text('', { content: { contactMessage: { displayName: 'Bob', vcard: 'BEGIN:VCARD\nTEL;type=CELL:+49 170 1\nEND:VCARD' } } }),
    );
    service.deliver(text('', { content: { viewOnceMessageV2: { message: { conversation: 'once' } } } }));
    // Messages of a group wait for its name; only the order within a chat is kept.
    const messages = await run.waiting(5);
    const [mention, quote] = messages.filter(({ isGroup }) => isGroup);
    const [place, contact, once] = messages.filter(({ isGroup }) => !isGroup);
    assert.deepEqual(
      [mention.isGroup, mention.chatId, mention.chatName, mention.senderId, mention.senderAltId, mention.mentionsMe],
      [true, GROUP, 'Family', '900000000009@lid', ANN, true],
    );
    assert.deepEqual([quote.body, quote.quotedId, quote.quotedText, quote.quotesMe], ['yes', 'OLD', 'sure?', true]);
    assert.equal(place.body, '[location received: 52.5, 13.4 (Home)]');
    assert.deepEqual(place.location, { latitude: 52.5, longitude: 13.4, name: 'Home' });
    assert.equal(contact.body, '[contact received: Bob +49 170 1]');
    assert.equal(once.body, 'once');
    assert.equal(service.calls.filter(({ name }) => name === 'group').length, 1);
  });

  it('tells reactions, edits and deletions only to consumers that acknowledge', async () => {
    const run = await start();
    const deliver = () => {
      service.deliver(text('', { content: { reactionMessage: { text: '👍', key: { id: 'MINE', fromMe: false } } } }));
      service.deliver(
        text('', {
          content: {
            editedMessage: {
              message: { protocolMessage: { type: 14, key: { id: 'HERS' }, editedMessage: { conversation: 'better' } } },
            },
          },
        }),
      );
      service.deliver(text('', { content: { protocolMessage: { type: 0, key: { id: 'HERS' } } } }));
      service.deliver(text('plain'));
    };
    deliver();
    const batch = await run.waiting(4);
    assert.deepEqual(
      batch.map(({ event, body, targetId, emoji, targetFromMe }) => [event, body, targetId, emoji, targetFromMe]),
      [
        ['reaction', '', 'MINE', '👍', true],
        ['edit', 'better', 'HERS', undefined, undefined],
        ['delete', '', 'HERS', undefined, undefined],
        ['message', 'plain', undefined, undefined, undefined],
      ],
    );
    await run.post('/ack', { ids: batch.map(({ ackId }) => ackId) });
    deliver();
    await service.until(() => service.undelivered === 0);
    assert.deepEqual(
      (await run.get('/messages')).body.map(({ body }) => body),
      ['plain'],
    );
    assert.deepEqual((await run.get('/messages?ack=1')).body, []);
  });

  it('leaves out what is not a message to the agent', async () => {
    const run = await start();
    service.deliver(text('status', { from: 'status@broadcast' }));
    service.deliver(text('news', { from: '120363@newsletter' }));
    service.deliver(text('list', { from: '123@broadcast' }));
    service.deliver(text('', { content: { protocolMessage: { type: 3, ephemeralExpiration: 86400, key: { id: 'X' } } } }));
    service.deliver(text('', { content: undefined, message: undefined, messageStubType: 2, id: 'LATER' }));
    service.deliver(text('mine', { key: { fromMe: true } }));
    service.deliver({ key: {} });
    service.deliver({ key: { id: 'NO-CHAT' }, message: { conversation: 'x' } });
    // A message that could not be decrypted comes again under its id.
    service.deliver(text('decrypted', { id: 'LATER' }));
    await service.until(() => service.undelivered === 0);
    assert.deepEqual(
      (await run.get('/messages?ack=1')).body.map(({ body }) => body),
      ['decrypted'],
    );
  });

  it('passes only allowed users, by number or by LID', async () => {
    const run = new Run(service, { env: { WHATSAPP_ALLOWED_USERS: '+4917011111111, 4917022222222' } });
    runs.push(run);
    fs.writeFileSync(path.join(run.session, 'lid-mapping-4917022222222.json'), '"900000000022"');
    fs.writeFileSync(path.join(run.session, 'lid-mapping-900000000033_reverse.json'), '"4917011111111"');
    run.port = (await run.line('listening')).port;
    await run.line('connected');
    service.deliver(text('no', { from: STRANGER }));
    service.deliver(text('by number'));
    service.deliver(text('by alt', { from: '900000000044@lid', key: { remoteJidAlt: ANN } }));
    service.deliver(text('by file', { from: '900000000022@lid' }));
    service.deliver(text('by reverse file', { from: '900000000033@lid' }));
    service.deliver(text('no', { from: GROUP, key: { participant: STRANGER } }));
    await service.until(() => service.undelivered === 0);
    assert.deepEqual(
      (await run.get('/messages?ack=1')).body.map(({ body }) => body),
      ['by number', 'by alt', 'by file', 'by reverse file'],
    );
  });

  it('accepts in self-chat mode only what its owner writes to himself', async () => {
    const run = await start({ env: { WHATSAPP_MODE: 'self-chat', WHATSAPP_REPLY_PREFIX: '*bot*\\n' } });
    await run.post('/send', { chatId: ME, message: 'answer', messageId: 'SENTBYUS1' });
    service.deliver(text('to me', { from: ME, key: { fromMe: true } }));
    service.deliver(text('to my LID', { from: MY_LID, key: { fromMe: true } }));
    service.deliver(text('*bot*\nanswer', { from: ME, key: { fromMe: true } }));
    service.deliver(text('changed by nobody', { from: ME, id: 'SENTBYUS1', key: { fromMe: true } }));
    service.deliver(text('to Ann', { key: { fromMe: true } }));
    service.deliver(text('to the group', { from: GROUP, key: { fromMe: true } }));
    service.deliver(text('from Ann'));
    await service.until(() => service.undelivered === 0);
    assert.deepEqual(
      (await run.get('/messages?ack=1')).body.map(({ body }) => body),
      ['to me', 'to my LID'],
    );
  });

  it('knows the echo of its own message after a kill', async () => {
    let run = await start({ env: { WHATSAPP_MODE: 'self-chat', WHATSAPP_REPLY_PREFIX: '' } });
    service.holdSends = true;
    run.post('/send', { chatId: ME, message: 'answer', messageId: 'SENTBYUS2' }).catch(() => {});
    await service.until(() => service.sent.length === 1);
    await run.kill();
    run = await start({ home: run.home, env: { WHATSAPP_MODE: 'self-chat', WHATSAPP_REPLY_PREFIX: '' } });
    service.deliver(text('answer', { from: ME, id: 'SENTBYUS2', key: { fromMe: true } }));
    await service.until(() => service.undelivered === 0);
    assert.deepEqual((await run.get('/messages?ack=1')).body, []);
  });
});
