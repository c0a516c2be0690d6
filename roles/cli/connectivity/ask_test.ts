import assert from "node:assert/strict";
import type { Questions } from "../../../lib/connectivity/mod.ts";
import type { Exec } from "../base/kubectl.ts";
import { askAll } from "./ask.ts";
import { planProbes } from "./plan.ts";
import { failuresOf } from "./results.ts";
import { podOf, TARGETS } from "./testing.ts";

const PODS = [podOf(1), podOf(2)];
const PROBES = planProbes(PODS, TARGETS)
  .filter(({ check }) => check === "api-server" || check === "service");
const ANSWERED = { state: "answered" };
const FAILED = { state: "failed", why: "refused", detail: "" };

/** Asks by a function in place of kubectl; what was asked of whom is noted. */
async function asked(
  answer: (pod: string, call: number, questions: Questions) => unknown,
  probes = PROBES,
  controller = new AbortController(),
) {
  const calls: string[] = [];
  const said: string[] = [];
  const exec: Exec = ({ namespace, name, container }, args, options = {}) => {
    const questions: Questions = JSON.parse(options.stdin ?? "");
    calls.push(`${name} ${questions.questions.length}`);
    assert.deepEqual([namespace, container, ...args], [
      "ns",
      "probe",
      "probe",
      "ask",
    ]);
    // A busy node takes longer to start a program than questions may.
    assert.ok((options.timeoutMs ?? 0) > 5 * questions.timeoutMs);
    const call = calls.filter((one) => one.startsWith(`${name} `)).length;
    const result = answer(name, call, questions);
    return Promise.resolve(
      typeof result === "number"
        ? { code: result, stdout: "", stderr: "Error: what?\n" }
        : { code: 0, stdout: JSON.stringify(result), stderr: "" },
    );
  };
  const { signal } = controller;
  const say = (text: string) => void said.push(text);
  const result = await askAll(probes, { exec, namespace: "ns", signal, say });
  return { ...result, calls: calls.sort(), said };
}

Deno.test("askAll() asks each pod once when all is well", async () => {
  const { calls, results, unasked, said } = await asked((
    _pod,
    _call,
    { questions },
  ) => questions.map(() => ANSWERED));
  assert.deepEqual(calls, ["probe-0 3", "probe-1 3"]);
  assert.deepEqual(results.map(({ probe }) => probe), PROBES);
  assert.deepEqual([failuresOf(results), unasked, said], [[], [], []]);
});

Deno.test("askAll() reports what failed twice, and asks only that again", async () => {
  const { calls, results, said } = await asked((pod, call, { questions }) =>
    pod === "probe-1"
      ? questions.map((_, i) =>
        i === 0 || (i === 1 && call === 1) ? FAILED : ANSWERED
      )
      : questions.map(() => ANSWERED)
  );
  assert.deepEqual(calls, ["probe-0 3", "probe-1 2", "probe-1 3"]);
  assert.deepEqual(failuresOf(results).map(({ probe }) => probe), [PROBES[3]]);
  assert.equal(results.length, PROBES.length);
  assert.deepEqual(said, ["2 probes failed: repeating these"]);
});

Deno.test("askAll() says of which pods nothing is known, and why", async () => {
  for (
    const [answer, why] of [
      [2, "its coil is too old: it has no probe"],
      [1, "Error: what?"],
      [[], "its answer has another form"],
    ] as const
  ) {
    const { calls, results, unasked } = await asked((
      pod,
      _call,
      { questions },
    ) => pod === "probe-0" ? answer : questions.map(() => ANSWERED));
    assert.deepEqual(unasked, [{ pod: PODS[0], why }]);
    assert.equal(results.length, 3);
    assert.deepEqual(calls, ["probe-0 3", "probe-0 3", "probe-1 3"]);
  }
});

Deno.test("askAll() asks a pod that did not answer once more, with what failed elsewhere", async () => {
  const { calls, results, unasked, said } = await asked(
    (pod, call, { questions }) => {
      if (pod === "probe-0") {
        return call === 1 ? 1 : questions.map(() => FAILED);
      }
      return questions.map((_, i) => i === 0 && call === 1 ? FAILED : ANSWERED);
    },
  );
  assert.deepEqual(calls, ["probe-0 3", "probe-0 3", "probe-1 1", "probe-1 3"]);
  assert.deepEqual(unasked, []);
  assert.equal(results.length, PROBES.length);
  const failed = failuresOf(results).map(({ probe }) => probe);
  assert.deepEqual(failed, PROBES.filter(({ from }) => from === PODS[0]));
  assert.deepEqual(said, ["4 probes failed: repeating these"]);
});

Deno.test("askAll() keeps what a pod answered before it did not, and asks it the rest", async () => {
  const [probe] = PROBES;
  assert.ok(probe !== undefined);
  const probes = Array.from({ length: 501 }, () => ({ ...probe }));
  const { calls, results, unasked } = await asked(
    (_pod, call, { questions }) =>
      call === 2 ? 1 : questions.map(() => ANSWERED),
    probes,
  );
  assert.deepEqual(calls, ["probe-0 1", "probe-0 1", "probe-0 500"]);
  assert.deepEqual([results.length, unasked], [501, []]);
});

Deno.test("askAll() says of a pod that answers the first time only what it answered then", async () => {
  const { results, unasked } = await asked((pod, call, { questions }) => {
    if (pod === "probe-1") return questions.map(() => ANSWERED);
    return call === 1 ? questions.map(() => FAILED) : 1;
  });
  assert.deepEqual(results.map(({ probe }) => probe), PROBES);
  assert.equal(failuresOf(results).length, 3);
  assert.deepEqual(unasked, [{ pod: PODS[0], why: "Error: what?" }]);
});

Deno.test("askAll() does not call failed what Ctrl-C or the end of the time cuts short", async () => {
  const controller = new AbortController();
  const { said, unasked } = await asked(
    () => {
      controller.abort();
      return 1;
    },
    PROBES,
    controller,
  );
  assert.deepEqual(said, []);
  assert.deepEqual(unasked, PODS.map((pod) => ({ pod, why: "no time left" })));
});

Deno.test("askAll() asks a pod no more than 500 questions at a time", async () => {
  const [probe] = PROBES;
  assert.ok(probe !== undefined);
  const { calls, results } = await asked(
    (_pod, _call, { questions }) => questions.map(() => ANSWERED),
    Array.from({ length: 1_001 }, () => probe),
  );
  assert.deepEqual(calls, ["probe-0 1", "probe-0 500", "probe-0 500"]);
  assert.equal(results.length, 1_001);
});
