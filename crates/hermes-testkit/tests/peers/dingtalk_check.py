"""The published client of DingTalk's stream against the emulated platform: it connects, takes a message, answers it."""

import os
import sys
import threading

os.environ["DINGTALK_OPENAPI_ENDPOINT"] = sys.argv[1]
import dingtalk_stream

done = threading.Event()


class Echo(dingtalk_stream.ChatbotHandler):
    async def process(self, callback):
        message = dingtalk_stream.ChatbotMessage.from_dict(callback.data)
        assert message.sender_staff_id == "staff1", message
        assert message.conversation_type == "1", message
        self.reply_text("heard " + message.text.content.strip(), message)
        done.set()
        return dingtalk_stream.AckMessage.STATUS_OK, "OK"


client = dingtalk_stream.DingTalkStreamClient(dingtalk_stream.Credential(sys.argv[2], sys.argv[3]))
client.register_callback_handler(dingtalk_stream.ChatbotMessage.TOPIC, Echo())
threading.Thread(target=client.start_forever, daemon=True).start()
assert done.wait(30), "no message came"
print("all well", flush=True)
# The acknowledgement leaves after the handler has returned; the test waits for it and ends this process.
threading.Event().wait(30)
