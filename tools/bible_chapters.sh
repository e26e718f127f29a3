#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bible_chapters.sh FOLDER: the King James Bible of Debian's bible-kjv as JSON lines, a document a chapter, references and double
# blanks stripped, into FOLDER/bible.jsonl; every 20th chapter, which preparation holds out, also as FOLDER/held_out.txt.
set -euo pipefail
folder=$1
mkdir -p "$folder"
bible -f gen1:1-rev22:21 | awk -v jsonl="$folder/bible.jsonl" -v held_out="$folder/held_out.txt" '
  function flush() {
    if (text == "") return
    number++
    if (number % 20 == 0) printf "%s", text > held_out
    gsub(/\\/, "\\\\", text); gsub(/"/, "\\\"", text); gsub(/\n/, "\\n", text)
    printf "{\"text\": \"%s\"}\n", text > jsonl
    text = ""
  }
  {
    reference = $1
    chapter = reference; sub(/:.*/, "", chapter)
    if (chapter != previous) { flush(); previous = chapter }
    line = $0; sub(/^[^ ]+ +/, "", line); gsub(/  +/, " ", line); sub(/ +$/, "", line)
    text = text line "\n"
  }
  END { flush() }'
