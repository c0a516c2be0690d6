import assert from "node:assert/strict";
import { describeScore, describeTrial } from "./score.ts";

Deno.test("describeScore() counts a timeout as noticed, and leaves out what does not compile", () => {
  assert.equal(
    describeScore(["killed", "survived", "timed out", "invalid", "explained"]),
    "3 of 4 noticed or explained (75 %): 1 killed, 1 timed out, 1 explained, 1 survived; 1 more do not compile",
  );
  assert.equal(
    describeScore([]),
    "0 of 0 noticed or explained (100 %): 0 killed, 0 timed out, 0 explained, 0 survived",
  );
});

Deno.test("describeTrial() shows place and change in one line", () => {
  const mutant = {
    file: "a.ts",
    line: 3,
    start: 0,
    end: 9,
    to: ";",
    isExplained: false,
  };
  assert.equal(
    describeTrial({ mutant, from: "save(\n  a);", outcome: "survived" }),
    "survived  a.ts:3  save( a);  ->  ;",
  );
  const by = "a_test.ts";
  assert.equal(
    describeTrial({ mutant, from: "a", outcome: "killed", by }),
    "killed    a.ts:3  a  ->  ;  (a_test.ts)",
  );
});
