import assert from "node:assert/strict";
import { ShownInTurn } from "./shown_in_turn.ts";

function shownOf(names: readonly string[]) {
  let text = "";
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  const turn = new ShownInTurn(names, (bytes) => text += decoder.decode(bytes));
  return {
    turn,
    say: (name: string, words: string) =>
      turn.hear(name, encoder.encode(words)),
    shown: () => text,
  };
}

Deno.test("ShownInTurn shows the first at once, and others when those before have ended", () => {
  const { turn, say, shown } = shownOf(["a", "b", "c"]);
  say("b", "b1 ");
  say("a", "a1 ");
  say("c", "c1 ");
  assert.equal(shown(), "a1 ");
  turn.end("a");
  assert.equal(shown(), "a1 b1 ");
  assert.equal(turn.current, "b");
  say("b", "b2 ");
  say("c", "c2 ");
  assert.equal(shown(), "a1 b1 b2 ");
  turn.end("b");
  say("c", "c3");
  assert.equal(shown(), "a1 b1 b2 c1 c2 c3");
});

Deno.test("ShownInTurn shows all of one that has ended before its turn", () => {
  const { turn, say, shown } = shownOf(["a", "b", "c"]);
  say("b", "b1 ");
  turn.end("b");
  say("c", "c1 ");
  assert.equal(shown(), "");
  turn.end("a");
  assert.equal(shown(), "b1 c1 ");
  assert.equal(turn.current, "c");
  turn.end("c");
  assert.equal(turn.current, undefined);
});
