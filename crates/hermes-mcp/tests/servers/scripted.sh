#!/bin/sh
# An MCP server for tests: a line in, a line out. $1 is a folder; the files in it decide what the server says, and what
# it was told is appended to `heard`.
folder=$1
echo "$$" >>"$folder/starts"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do
    printf '%s\n' "$line" >>"$folder/heard"
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case $line in
    *'"id":900'*)
        # The answer to the request of `sample`.
        printf '%s' "$line" >"$folder/sampled"
        id=$pending
        answer '{"content":[{"type":"text","text":"sampled"}]}'
        ;;
    *'"id":901'*)
        printf '%s' "$line" >"$folder/elicited"
        id=$pending
        answer '{"content":[{"type":"text","text":"asked"}]}'
        ;;
    *'"method":"initialize"'*)
        echo "the server says hello on standard error" >&2
        echo "this line is no message"
        answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"scripted","version":"1"}}'
        ;;
    *'"method":"tools/list"'*) answer "$(cat "$folder/tools.json")" ;;
    *'"method":"tools/call"'*)
        case $line in
        *'"name":"die"'*) kill -9 $$ ;;
        *'"name":"fork"'*)
            sleep 1000 &
            echo $! >"$folder/forked"
            answer '{"content":[{"type":"text","text":"forked"}]}'
            ;;
        *'"name":"silent"'*) : ;;
        *'"name":"progress"'*)
            token=$(printf '%s' "$line" | sed -n 's/.*"progressToken":\([0-9]*\).*/\1/p')
            printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"total":2,"message":"half"}}\n' "$token"
            ;;
        *'"name":"sample"'*)
            pending=$id
            printf '{"jsonrpc":"2.0","id":900,"method":"sampling/createMessage","params":%s}\n' "$(cat "$folder/sampling.json")"
            ;;
        *'"name":"elicit"'*)
            pending=$id
            printf '{"jsonrpc":"2.0","id":901,"method":"elicitation/create","params":%s}\n' "$(cat "$folder/elicitation.json")"
            ;;
        *'"name":"environment"'*)
            answer "{\"content\":[{\"type\":\"text\",\"text\":\"$(env | sort | cut -d= -f1 | tr '\n' ' ')\"}]}"
            ;;
        *'"name":"change"'*)
            cp "$folder/changed.json" "$folder/tools.json"
            printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
            answer '{"content":[{"type":"text","text":"changed"}]}'
            ;;
        *) answer "$(cat "$folder/result.json")" ;;
        esac
        ;;
    esac
done
