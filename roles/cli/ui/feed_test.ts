import assert from "node:assert/strict";
import { Feed } from "./feed.ts";

/** Reads events one by one, when the test wants one. */
function reader(feed: Feed) {
  const events = feed.events().getReader();
  const decoder = new TextDecoder();
  return {
    next: async () => decoder.decode((await events.read()).value),
    end: () => events.cancel(),
  };
}

const state = (set: string) =>
  `event: state\ndata: {"set":{${set}},"gone":[]}\n\n`;
const changes = (set: string, gone = "") =>
  `event: changes\ndata: {"set":{${set}},"gone":[${gone}]}\n\n`;

Deno.test("Feed gives a reader that is slow several changes as one", async () => {
  const feed = new Feed();
  const events = reader(feed);
  assert.equal(await events.next(), state(""));
  feed.publish("a", new Map([["x", "1"], ["y", "1"]]));
  feed.publish("b", new Map([["z", "1"]]));
  feed.publish("a", new Map([["x", "2"]]));
  assert.equal(await events.next(), changes('"x":2,"z":1'));
  feed.publish("b", new Map());
  assert.equal(await events.next(), changes("", '"z"'));
  await events.end();
});

Deno.test("Feed sends nothing when entries are made again and are the same", async () => {
  const feed = new Feed();
  feed.publish("a", new Map([["x", "1"]]));
  const events = reader(feed);
  await events.next();
  const next = events.next();
  feed.publish("a", new Map([["x", "1"]]));
  await Promise.resolve();
  feed.publish("a", new Map([["x", "1"], ["y", "2"]]));
  assert.equal(await next, changes('"y":2'));
  await events.end();
});

Deno.test("Feed lets go of a reader that ends while it waits", async () => {
  const feed = new Feed();
  const events = reader(feed);
  await events.next();
  const waiting = events.next();
  await events.end();
  assert.equal(await waiting, "");
});
