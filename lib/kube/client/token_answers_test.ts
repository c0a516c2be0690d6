import assert from "node:assert/strict";
import { TokenAnswers, TooManyTokensError } from "./token_answers.ts";

/** An API server to which tokens are good whose text begins with "good". */
function setUp() {
  const asked: string[] = [];
  let nowMs = 0;
  const world = { isGood: (token: string) => token.startsWith("good") };
  const answers = new TokenAnswers<boolean>({
    ask: (token) => {
      asked.push(token);
      return Promise.resolve(world.isGood(token));
    },
    isGood: (answer) => answer,
    perPeer: { burst: 2, perSecond: 1 },
    inAll: { burst: 5, perSecond: 2 },
    nowMs: () => nowMs,
  });
  const about = async (token: string, peer: string) => {
    try {
      return await answers.about(token, peer);
    } catch (error) {
      if (!(error instanceof TooManyTokensError)) throw error;
      assert.match(error.message, new RegExp(`from ${peer}: too many`));
      return "too many";
    }
  };
  return { about, asked, pass: (ms: number) => nowMs += ms, world };
}

Deno.test("TokenAnswers lets one peer's flood refuse nobody else's new token", async () => {
  const { about, asked, pass } = setUp();
  for (let n = 0; n < 50; n++) await about(`junk${n}`, "192.0.2.66");
  assert.equal(asked.length, 2);
  assert.equal(await about("good", "192.0.2.1"), true);
  assert.equal(await about("junk51", "192.0.2.66"), "too many");
  pass(1_000);
  assert.equal(await about("junk52", "192.0.2.66"), false);
});

Deno.test("TokenAnswers bounds what all peers ask together", async () => {
  const { about, asked, pass } = setUp();
  for (let n = 0; n < 50; n++) await about(`junk${n}`, `192.0.2.${n}`);
  assert.equal(asked.length, 5);
  assert.equal(await about("good", "192.0.2.66"), "too many");
  pass(500);
  assert.equal(await about("good", "192.0.2.66"), true);
});

Deno.test("TokenAnswers asks again about a good token amid a flood of others, as often as it likes", async () => {
  const { about, asked, pass, world } = setUp();
  assert.equal(await about("good", "192.0.2.1"), true);
  for (let minute = 0; minute < 3; minute++) {
    pass(60_000);
    for (let n = 0; n < 50; n++) {
      await about(`junk${minute}.${n}`, `192.0.2.${n}`);
    }
    assert.equal(await about("good", "192.0.2.1"), true);
    assert.equal(asked.at(-1), "good");
  }
  world.isGood = () => false;
  pass(60_000);
  assert.equal(await about("good", "192.0.2.1"), false, "it was taken back");
  for (let n = 0; n < 50; n++) await about(`late${n}`, `192.0.2.${n}`);
  pass(10_000);
  for (let n = 0; n < 50; n++) await about(`later${n}`, `192.0.2.${n}`);
  assert.equal(await about("good", "192.0.2.1"), "too many", "as any other");
});

Deno.test("TokenAnswers asks about a good token once in a second while the API server fails", async () => {
  const { about, asked, pass, world } = setUp();
  assert.equal(await about("good", "192.0.2.1"), true);
  pass(60_000);
  world.isGood = () => {
    throw new Error("away");
  };
  await assert.rejects(about("good", "192.0.2.1"), /away/);
  for (let n = 0; n < 50; n++) {
    assert.equal(await about("good", "192.0.2.1"), "too many");
  }
  assert.equal(asked.length, 2);
  pass(1_000);
  world.isGood = () => true;
  assert.equal(await about("good", "192.0.2.1"), true);
});

Deno.test("TokenAnswers takes nothing from a peer that is refused for what others sent", async () => {
  const { about, pass } = setUp();
  for (let n = 0; n < 50; n++) await about(`junk${n}`, `192.0.2.${n}`);
  for (let n = 0; n < 50; n++) await about(`early${n}`, "192.0.2.66");
  pass(1_000);
  assert.equal(await about("good", "192.0.2.66"), true);
  assert.equal(await about("good, too", "192.0.2.66"), true);
});

Deno.test("TokenAnswers is not made to forget a good token by bad ones", async () => {
  const { about, asked, pass } = setUp();
  assert.equal(await about("good", "192.0.2.1"), true);
  for (let n = 0; n < 5_000; n++) {
    pass(10);
    await about(`junk${n}`, `192.0.${n >> 8}.${n & 255}`);
  }
  const before = asked.length;
  assert.equal(await about("good", "192.0.2.1"), true);
  assert.equal(asked.length, before);
});
