import assert from "node:assert/strict";
import { gatewayMark } from "../../lib/egress/mod.ts";
import { configureLogging } from "../../lib/telemetry/mod.ts";
import { GATEWAYS, SwitchLab } from "./egress_switch_lab.ts";
import { netnsTest } from "./testing.ts";

configureLogging({ write: () => {} });

const CLIENTS = 60;
const CONNECTIONS = 2;
/** Of the reconciler. */
const WORKERS = 4;

for (const originatingOnly of [false, true]) {
  const mode = originatingOnly ? " in originating-only mode" : "";
  netnsTest(
    `when a gateway is lost, new connections of all pods go elsewhere before the first connection is ended${mode}`,
    () => expectSwitch({ originatingOnly }),
  );
}

async function expectSwitch(
  { originatingOnly }: { readonly originatingOnly: boolean },
): Promise<void> {
  await using lab = await SwitchLab.open({
    clients: CLIENTS,
    connections: CONNECTIONS,
    originatingOnly,
  });
  const [lost, other] = GATEWAYS.map(gatewayMark);
  assert.ok(lost && other);
  const ready = [lost, other].toSorted();
  const chosen = new Set(ready);
  for (const marks of await lab.marks()) {
    assert.deepEqual(marks, { ready, chosen, lost: new Set() });
  }
  const before = await lab.table();
  await lab.lose();
  for (const marks of await lab.marks()) {
    assert.deepEqual(marks, { ready: [other], chosen, lost: new Set([lost]) });
  }
  const after = await lab.table();
  const chosenFrom = [...after.matchAll(/ct mark set (0x[89a-f]\w{7})/g)];
  assert.deepEqual(chosenFrom.map(([, mark]) => Number(mark)), [other]);
  // What says how connections from outside are answered is left alone.
  for (const part of ["set interfaces", "chain answers"]) {
    const pattern = new RegExp(`${part} \\{[^}]*\\}`);
    assert.equal(pattern.test(after), originatingOnly, after);
    assert.equal(pattern.exec(after)?.[0], pattern.exec(before)?.[0]);
  }
  assert.equal(lab.aborted, CLIENTS * CONNECTIONS);
  const first = lab.chosenBeforeEnds;
  assert.ok(first > CLIENTS - WORKERS, `only ${first} had chosen`);
}
