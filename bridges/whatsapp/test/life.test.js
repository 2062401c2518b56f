import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Service, text } from './service.js';
import { BRIDGE, Run } from './run.js';

describe('the life of the bridge', { timeout: 60_000 }, () => {
  let service;
  const runs = [];
  const start = (options) => {
    const run = new Run(service, options);
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

  it('ends with its parent', async () => {
    const run = start({ stdin: '{}\n' });
    await run.line('connected');
    run.child.stdin.end();
    assert.deepEqual(await run.exited, { code: 0, signal: null });
    assert.equal(run.lines.at(-1).text, 'the parent ended');
  });

  it('ends when its parent is killed', async () => {
    const parent = spawn(
      process.execPath,
      [
        '-e',
        `
      const { spawn } = require('node:child_process');
      const child = spawn(process.execPath, process.argv.slice(1), { stdio: ['pipe', 'inherit', 'inherit'] });
      child.stdin.write('{}\\n');
    `,
        BRIDGE,
        '--port',
        '0',
        '--stdin',
        '--session',
        path.join(service.folder, 'home', 'session'),
      ],
      {
        env: {
          PATH: process.env.PATH,
          HERMES_WHATSAPP_SOCKET_MODULE: path.join(path.dirname(BRIDGE), 'test', 'fake-socket.js'),
          FAKE_WHATSAPP: service.path,
        },
        stdio: ['ignore', 'pipe', 'ignore'],
      },
    );
    fs.mkdirSync(path.join(service.folder, 'home', 'session'), { recursive: true });
    fs.writeFileSync(path.join(service.folder, 'home', 'session', 'creds.json'), '{"me":{"id":"1@s.whatsapp.net"},"account":{}}');
    let said = '';
    const ended = once(parent.stdout, 'end');
    parent.stdout.setEncoding('utf8').on('data', (chunk) => {
      said += chunk;
      if (said.includes('"connected"')) parent.kill('SIGKILL');
    });
    // The pipe is shared with the bridge: it closes when the bridge has ended too.
    await ended;
    assert.match(said, /the parent ended/);
  });

  it('ends in order on a signal, and another one can take its place', async () => {
    const run = start();
    await run.line('connected');
    assert.deepEqual(await run.kill('SIGTERM'), { code: 0, signal: null });
    assert.equal(fs.existsSync(path.join(run.home, 'bridge.lock')), false);
    await start({ home: run.home }).line('connected');
  });

  it('refuses a session in use and names its holder, but not a lock that a kill left', async () => {
    const first = start();
    await first.line('connected');
    const second = start({ home: first.home });
    assert.equal((await second.exited).code, 7);
    assert.equal((await second.line('session_in_use')).pid, first.child.pid);
    await first.kill();
    assert.equal(fs.existsSync(path.join(first.home, 'bridge.lock')), true);
    await start({ home: first.home }).line('connected');
  });

  it('says which port is taken', async () => {
    const first = start();
    const { port } = await first.line('listening');
    const second = start({ home: path.join(service.folder, 'other'), args: ['--port', String(port)] });
    assert.equal((await second.exited).code, 8);
    await second.line('port_taken');
  });

  it('reconnects, at once where WhatsApp asks for it', async () => {
    const run = start();
    await run.line('connected');
    service.emit({ type: 'close', code: 515, text: 'restart required' });
    await run.line('connected', 1);
    for (let n = 0; n < 4; n += 1) {
      service.emit({ type: 'close', code: 408, text: 'lost' });
      await run.line('connected', 2 + n);
    }
    const waits = run.lines.filter(({ event }) => event === 'disconnected').map(({ retryMs }) => retryMs / 2);
    // In thousandths of the real waits: 1 s, then 3 s doubled each time, up to a fifth longer.
    const within = (value, least) => assert.ok(value >= least - 0.5 && value <= least * 1.2 + 0.5, JSON.stringify(waits));
    [1, 3, 6, 12, 24].forEach((least, n) => within(waits[n], least));
    service.deliver(text('still here'));
    run.port = (await run.line('listening')).port;
    assert.deepEqual(
      (await run.waiting()).map(({ body }) => body),
      ['still here'],
    );
  });

  it('tells once that the phone removed it, and ends', async () => {
    const run = start();
    await run.line('connected');
    service.emit({ type: 'close', code: 401, text: 'logged out' });
    assert.equal((await run.exited).code, 4);
    assert.equal(run.lines.filter(({ event }) => event === 'logged_out').length, 1);
    assert.ok(fs.existsSync(path.join(run.session, 'creds.json')));
  });

  it('ends when WhatsApp refuses the account', async () => {
    const run = start();
    await run.line('connected');
    service.emit({ type: 'close', code: 403, text: 'forbidden' });
    assert.equal((await run.exited).code, 5);
  });

  it('does not begin without a linked phone', async () => {
    const run = start({ linked: false });
    assert.equal((await run.exited).code, 4);
    await run.line('unlinked');
    assert.equal(service.connections, 0);
  });

  it('ends when WhatsApp asks a running bridge to link', async () => {
    service.open = false;
    const run = start();
    await service.until(() => service.calls.some(({ name }) => name === 'connected'));
    service.emit({ type: 'qr', payload: '2@x' });
    assert.equal((await run.exited).code, 4);
  });

  it('links a phone: payloads as lines, the restart in between, then the end', async () => {
    service.open = false;
    const run = start({ linked: false, args: ['--pair-only'] });
    await service.until(() => service.calls.some(({ name }) => name === 'connected'));
    service.emit({ type: 'qr', payload: '2@first,with,parts' });
    assert.equal((await run.line('qr')).payload, '2@first,with,parts');
    service.emit({ type: 'qr', payload: '2@second' });
    assert.equal((await run.line('qr', 1)).payload, '2@second');
    service.open = true;
    service.emit({ type: 'close', code: 515, text: 'restart required' });
    assert.equal((await run.exited).code, 0);
    await run.line('linked');
  });

  it('links a phone by a code for its number', async () => {
    service.open = false;
    const run = start({ linked: false, args: ['--pair-only', '--pair-phone', '+49 151 12345678'] });
    await service.until(() => service.calls.some(({ name }) => name === 'connected'));
    service.emit({ type: 'qr', payload: '2@x' });
    service.emit({ type: 'qr', payload: '2@y' });
    assert.equal((await run.line('code')).code, 'ABCD1234');
    assert.deepEqual(
      service.calls.filter(({ name }) => name === 'pairingCode').map((call) => call.arguments),
      [{ phone: '4915112345678' }],
    );
    assert.deepEqual(
      run.lines.filter(({ event }) => event === 'qr'),
      [],
    );
  });

  it('sets a session that ended aside when a phone is linked again', async () => {
    service.open = false;
    const run = start({ args: ['--pair-only'] });
    await service.until(() => service.calls.some(({ name }) => name === 'connected'));
    service.emit({ type: 'close', code: 401, text: 'logged out' });
    await run.line('unlinked');
    await service.until(() => service.calls.filter(({ name }) => name === 'connected').length === 2);
    service.emit({ type: 'qr', payload: '2@new' });
    await run.line('qr');
    assert.ok(fs.existsSync(path.join(run.home, 'session.logged-out', 'creds.json')));
    assert.equal(fs.existsSync(path.join(run.session, 'creds.json')), false);
  });

  it('gives up linking after its time', async () => {
    service.open = false;
    const run = start({ linked: false, args: ['--pair-only', '--pair-timeout', '1'] });
    assert.equal((await run.exited).code, 6);
    await run.line('timeout');
  });

  it('prints nothing that a library prints', async () => {
    const run = start();
    await run.line('connected');
    await run.kill('SIGTERM');
    assert.doesNotMatch(JSON.stringify(run.lines) + run.errors, /PRIVATE-KEY/);
  });

  it('explains wrong arguments and a missing library', async () => {
    const cases = [
      [['--port', '99999', '--session', 'x'], {}, 2],
      [['--port'], {}, 2],
      [[], {}, 2],
      [['--session', 'x', '--mode', 'loud'], {}, 2],
      [['--bogus'], {}, 2],
      [['--help'], {}, 0],
      [['--check'], { HERMES_WHATSAPP_SOCKET_MODULE: '/nowhere.js' }, 3],
      [['--check'], { HERMES_WHATSAPP_SOCKET_MODULE: path.join(path.dirname(BRIDGE), 'test', 'fake-socket.js') }, 0],
    ];
    for (const [args, env, code] of cases) {
      const child = spawn(process.execPath, [BRIDGE, ...args], { env: { PATH: process.env.PATH, ...env }, stdio: 'ignore' });
      assert.deepEqual((await once(child, 'exit'))[0], code, args.join(' '));
    }
  });
});
