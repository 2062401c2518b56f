// The real connection of the bridge, led to a server of the tests instead of WhatsApp.

import * as real from '../baileys-socket.js';

export const { load, freeze, thaw } = real;
export const delayScale = 0.01;
export const connect = (options) => real.connect({ ...options, url: process.env.PEER_WHATSAPP });
