// Serves telegram-test-api on a free port of this machine and prints its address.
const net = require('net');
const TelegramServer = require('telegram-test-api');

const probe = net.createServer().listen(0, '127.0.0.1', () => {
  const { port } = probe.address();
  probe.close(async () => {
    await new TelegramServer({ port, host: '127.0.0.1', storeTimeout: 3600 }).start();
    console.log(`127.0.0.1:${port}`);
  });
});
