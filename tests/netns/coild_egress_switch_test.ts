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

netnsTest(
  "when a gateway is lost, new connections of all pods go elsewhere before the first connection is ended",
  async () => {
    await using lab = await SwitchLab.open({
      clients: CLIENTS,
      connections: CONNECTIONS,
    });
    const [lost, other] = GATEWAYS.map(gatewayMark);
    const ready = [lost, other].toSorted();
    for (const marks of await lab.marks()) {
      assert.deepEqual(marks, { ready, lost: [] });
    }
    await lab.lose();
    for (const marks of await lab.marks()) {
      assert.deepEqual(marks, { ready: [other], lost: [lost] });
    }
    const chosenFrom = [...(await lab.rules()).matchAll(/mark set (0x\w+)/g)];
    assert.deepEqual(chosenFrom.map(([, mark]) => Number(mark)), [other]);
    assert.equal(lab.aborted, CLIENTS * CONNECTIONS);
    const chosen = lab.chosenBeforeEnds;
    assert.ok(chosen > CLIENTS - WORKERS, `only ${chosen} had chosen`);
  },
);
