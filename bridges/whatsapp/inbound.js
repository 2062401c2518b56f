// Translates a received WhatsApp message into the object that the consumer gets, and decides whether the consumer gets it.
// Pure but for the LID mapping. Fetches nothing: the text of a message with a file is complete, its file is not there yet.

// Contents that only wrap another content.
const WRAPPERS = [
  'ephemeralMessage',
  'viewOnceMessage',
  'viewOnceMessageV2',
  'viewOnceMessageV2Extension',
  'documentWithCaptionMessage',
  'groupMentionedMessage',
  'deviceSentMessage',
  'botInvokeMessage',
  'lottieStickerMessage',
  'associatedChildMessage',
  'groupStatusMessage',
  'groupStatusMessageV2',
  'editedMessage',
];
const REVOKE = 0;
const MESSAGE_EDIT = 14;
const MOST_WRAPPERS = 8;

// Returns the part of an address before the device and the server.
export function userOf(jid) {
  return (jid ?? '').split('@')[0].split(':')[0];
}

// Returns an address without its device.
export function withoutDevice(jid) {
  const [user, server] = (jid ?? '').split('@');
  return server ? `${user.split(':')[0]}@${server === 'c.us' ? 's.whatsapp.net' : server}` : '';
}

export function isGroup(jid) {
  return jid.endsWith('@g.us');
}

// Tells whether an address is of a chat with people: no status, broadcast list or channel.
export function isChat(jid) {
  return /^[\w.:-]+@(s\.whatsapp\.net|c\.us|lid|hosted|hosted\.lid|g\.us)$/.test(jid ?? '');
}

// Returns the key under which a message is known, also when it is delivered twice.
export function keyOf({ key }) {
  return `${withoutDevice(key.remoteJid)}|${key.fromMe ? 1 : 0}|${key.id}|${withoutDevice(key.participant)}`;
}

function contentOf(raw) {
  let content = raw.message;
  for (let depth = 0; depth < MOST_WRAPPERS && content; depth += 1) {
    const wrapper = WRAPPERS.find((name) => content[name]?.message);
    if (!wrapper) break;
    content = content[wrapper].message;
  }
  return content;
}

const MEDIA = [
  ['imageMessage', 'image'],
  ['videoMessage', 'video'],
  ['ptvMessage', 'video'],
  ['audioMessage', 'audio'],
  ['documentMessage', 'document'],
  ['stickerMessage', 'image'],
];

// Returns { event, body, media?, context, … } of a content, or undefined if there is nothing to hand out.
function describe(content) {
  const change = content.protocolMessage;
  if (change) {
    if (!change.key?.id) return undefined;
    if (change.type === REVOKE) return { event: 'delete', body: '', targetId: change.key.id };
    if (change.type !== MESSAGE_EDIT || !change.editedMessage) return undefined;
    const edited = describe(contentOf({ message: change.editedMessage }) ?? {});
    return edited && { event: 'edit', body: edited.caption ?? edited.body, targetId: change.key.id, context: edited.context };
  }
  const reaction = content.reactionMessage;
  if (reaction) {
    if (!reaction.key?.id) return undefined;
    return { event: 'reaction', body: '', targetId: reaction.key.id, emoji: reaction.text ?? '', target: reaction.key };
  }
  for (const [name, type] of MEDIA) {
    const media = content[name];
    if (!media) continue;
    const mediaType = type === 'audio' && media.ptt ? 'ptt' : type;
    const word = name === 'stickerMessage' ? 'sticker' : mediaType;
    const caption = media.caption || undefined;
    return {
      event: 'message',
      body: caption ?? `[${word} received]`,
      caption,
      context: media.contextInfo,
      media: {
        type: mediaType,
        mime: media.mimetype || undefined,
        name: media.fileName || undefined,
        bytes: Number(media.fileLength ?? 0),
        seconds: Number(media.seconds ?? 0) || undefined,
        sticker: name === 'stickerMessage' || undefined,
      },
    };
  }
  const place = content.locationMessage ?? content.liveLocationMessage;
  if (place) {
    const location = {
      latitude: Number(place.degreesLatitude ?? 0),
      longitude: Number(place.degreesLongitude ?? 0),
      name: place.name || undefined,
      address: place.address || undefined,
      live: content.liveLocationMessage ? true : undefined,
    };
    const words = [location.name, location.address].filter(Boolean).join(', ');
    const body = `[location received: ${location.latitude}, ${location.longitude}${words ? ` (${words})` : ''}]`;
    return { event: 'message', body, location, context: place.contextInfo };
  }
  const contacts = content.contactMessage ? [content.contactMessage] : content.contactsArrayMessage?.contacts;
  if (contacts?.length) {
    const names = contacts.map((contact) => [contact.displayName, ...phonesOf(contact.vcard)].filter(Boolean).join(' '));
    return { event: 'message', body: `[contact received: ${names.join('; ')}]`, context: content.contactMessage?.contextInfo };
  }
  const poll = content.pollCreationMessage ?? content.pollCreationMessageV2 ?? content.pollCreationMessageV3;
  if (poll) {
    const choices = (poll.options ?? []).map((option) => option.optionName).join(' / ');
    return { event: 'message', body: `[poll received: ${poll.name ?? ''}: ${choices}]`, context: poll.contextInfo };
  }
  const chosen =
    content.buttonsResponseMessage?.selectedDisplayText ||
    content.templateButtonReplyMessage?.selectedDisplayText ||
    content.listResponseMessage?.title;
  const text = content.conversation || content.extendedTextMessage?.text || chosen;
  if (!text) return undefined;
  return { event: 'message', body: text, context: content.extendedTextMessage?.contextInfo };
}

function phonesOf(card) {
  return [...(card ?? '').matchAll(/^TEL[^:]*:(.+)$/gim)].map((match) => match[1].trim()).slice(0, 3);
}

function textOf(message) {
  const described = message && describe(contentOf({ message }) ?? {});
  return described ? described.body : undefined;
}

function seconds(value) {
  const number = Number(typeof value === 'object' && value !== null ? (value.toString?.() ?? 0) : value);
  return Number.isFinite(number) && number > 0 ? Math.floor(number) : Math.floor(Date.now() / 1000);
}

function drop(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== ''));
}

// Returns { message, media?, snippet } of a received message, or undefined if it carries nothing for the consumer.
// `self` has the `id` and `lid` of the linked account.
export function translate(raw, self) {
  const chatId = withoutDevice(raw.key?.remoteJid);
  if (!raw.key?.id || !chatId) return undefined;
  const content = contentOf(raw);
  const found = content && describe(content);
  if (!found) return undefined;
  const group = isGroup(chatId);
  const own = [self?.id, self?.lid].map(withoutDevice).filter(Boolean);
  const author = group ? raw.key.participant || raw.participant : chatId;
  // In the chat with oneself WhatsApp does not always mark the sender.
  const fromMe = Boolean(raw.key.fromMe) || own.includes(withoutDevice(author));
  const senderId = fromMe ? (own[0] ?? withoutDevice(author)) : withoutDevice(author);
  const senderAltId = fromMe ? own[1] : withoutDevice(group ? raw.key.participantAlt : raw.key.remoteJidAlt);
  const context = found.context;
  const mentionedIds = (context?.mentionedJid ?? []).map(withoutDevice).filter(Boolean);
  const quotedId = context?.quotedMessage ? context.stanzaId : undefined;
  const quotedAuthor = quotedId ? withoutDevice(context.participant) : undefined;
  const senderName = raw.pushName || userOf(senderAltId || senderId);
  const message = {
    messageId: raw.key.id,
    chatId,
    senderId,
    senderName,
    chatName: group ? undefined : senderName,
    isGroup: group,
    body: found.body,
    hasMedia: Boolean(found.media),
    mediaType: found.media?.type ?? '',
    mediaUrls: [],
    timestamp: seconds(raw.messageTimestamp),
    ...drop({
      event: found.event,
      fromMe: fromMe || undefined,
      chatAltId: group ? undefined : withoutDevice(raw.key.remoteJidAlt),
      senderAltId,
      caption: found.caption,
      mimeType: found.media?.mime,
      fileName: found.media?.name,
      seconds: found.media?.seconds,
      sticker: found.media?.sticker,
      location: found.location,
      mentionedIds: mentionedIds.length ? mentionedIds : undefined,
      mentionsMe: mentionedIds.some((id) => own.includes(id)) || undefined,
      quotedId,
      quotedSenderId: quotedAuthor,
      quotedText: quotedId ? textOf(context.quotedMessage) : undefined,
      quotesMe: (quotedAuthor && own.includes(quotedAuthor)) || undefined,
      targetId: found.targetId,
      targetFromMe: found.target ? isOwnTarget(found.target, own, fromMe, group) : undefined,
    }),
  };
  if (found.event === 'reaction') message.emoji = found.emoji;
  return { message, media: found.media, snippet: found.event === 'message' ? (found.caption ?? found.body) : '' };
}

// The key inside a reaction is written from its sender's view: `fromMe` there means the sender of the reaction.
function isOwnTarget(target, own, reactionIsMine, group) {
  if (target.participant) return own.includes(withoutDevice(target.participant));
  if (reactionIsMine) return Boolean(target.fromMe);
  return group ? undefined : !target.fromMe;
}

// Decides which messages the consumer gets.
export class Policy {
  constructor({ mode, replyPrefix, allowed, mapping, isSent }) {
    this.mode = mode;
    this.prefix = replyPrefix.trim();
    this.allowed = allowed;
    this.mapping = mapping;
    this.isSent = isSent;
  }

  // Tells whether a translated message is handed out.
  accepts(message, self) {
    if (!isChat(message.chatId)) return false;
    if (message.fromMe) return this.#acceptsOwn(message, self);
    // A personal number gets messages of all its owner's acquaintances: without a list they are not for the agent.
    if (this.mode === 'self-chat' && !this.allowed.listed) return false;
    return this.#isAllowed(message.senderId, message.senderAltId);
  }

  #acceptsOwn(message, self) {
    if (this.mode !== 'self-chat' || message.isGroup) return false;
    const own = [self?.id, self?.lid].map(userOf).filter(Boolean);
    const chats = [message.chatId, message.chatAltId].map(userOf).filter(Boolean);
    if (!chats.some((chat) => own.includes(chat))) return false;
    if (this.prefix !== '' && message.body.startsWith(this.prefix)) return false;
    return !this.isSent(message.messageId);
  }

  #isAllowed(...ids) {
    const { users } = this.allowed;
    if (!users) return true;
    const names = new Set(ids.filter(Boolean).map(userOf));
    for (const name of [...names])
      for (const other of [this.mapping.phoneOf(name), this.mapping.lidOf(name)]) {
        if (other) names.add(other);
      }
    if ([...names].some((name) => users.has(name))) return true;
    return [...users].some((user) => names.has(this.mapping.lidOf(user)));
  }
}
