import assert from "node:assert/strict";
import type { ClientGateway } from "../../../lib/egress/mod.ts";
import { gatewayFor } from "../../../lib/egress/testing.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { keepChoices } from "./kept_choices.ts";

function gateway(name: string, direct?: readonly string[]): ClientGateway {
  return gatewayFor(name, [], { direct: direct?.map(Address.parse) });
}

Deno.test("keepChoices() leaves no gateway to choose where some were chosen before, and what is chosen now as it is", () => {
  const before = [
    gateway("nat/left", []),
    gateway("nat/chosen", ["10.1.0.4"]),
    gateway("nat/served"),
  ];
  const kept = keepChoices(
    [
      gateway("nat/left"),
      gateway("nat/chosen", ["10.1.0.4"]),
      gateway("nat/never"),
      gateway("nat/served"),
      gateway("nat/new", ["10.1.0.5"]),
    ],
    new Map(before.map((each) => [each.name, each])),
  );
  assert.deepEqual(
    kept.map(({ name, direct }) => [name, direct?.join()]),
    [
      ["nat/left", ""],
      ["nat/chosen", "10.1.0.4"],
      ["nat/never", undefined],
      ["nat/served", undefined],
      ["nat/new", "10.1.0.5"],
    ],
  );
});
