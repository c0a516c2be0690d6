import assert from "node:assert/strict";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import { ipManagerAnswer } from "./inspection.ts";
import { FACTS, VIEW } from "./testing.ts";
import { upstreamEnis } from "./upstream_enis.ts";

Deno.test("ipManagerAnswer() counts the node's addresses and names their pods", () => {
  assert.deepEqual(ipManagerAnswer(FACTS), {
    allocated: 2,
    available: 15,
    cooling: 1,
    total: 18,
    ips: [
      {
        ip: "10.0.1.5",
        pod: "p1",
        namespace: "default",
        eni: "eni-1",
        since: "2026-06-01T11:00:00Z",
      },
      {
        ip: "10.0.1.17",
        pod: "",
        namespace: "",
        eni: "eni-10",
        since: "2026-06-01T11:59:00Z",
      },
    ],
  });
});

Deno.test("upstreamEnis() has upstream's form: addresses that pods have or had, masks in base64, Go's zero time", () => {
  const answer = upstreamEnis(FACTS) as {
    readonly 0: { readonly ENIs: Record<string, object> };
  };
  const { ENIs: { "eni-1": first, "eni-10": second }, ...rest } = answer[0];
  assert.deepEqual(rest, { TotalIPs: 18, AssignedIPs: 2 });
  const IPAMKey = { networkName: "", containerID: "", ifName: "" };
  assert.deepEqual(first, {
    ID: "eni-1",
    IsPrimary: true,
    IsTrunk: false,
    IsEFA: false,
    DeviceNumber: 0,
    AvailableIPv4Cidrs: {
      "10.0.1.5/32": {
        Cidr: { IP: "10.0.1.5", Mask: "/////w==" },
        IPAddresses: {
          "10.0.1.5": {
            Address: "10.0.1.5",
            IPAMKey,
            IPAMMetadata: {
              k8sPodNamespace: "default",
              k8sPodName: "p1",
              interfacesCount: 1,
            },
            AssignedTime: "2026-06-01T11:00:00Z",
            UnassignedTime: "0001-01-01T00:00:00Z",
          },
        },
        IsPrefix: false,
        AddressFamily: "",
      },
      "10.0.1.6/32": {
        Cidr: { IP: "10.0.1.6", Mask: "/////w==" },
        IPAddresses: {
          "10.0.1.6": {
            Address: "10.0.1.6",
            IPAMKey,
            IPAMMetadata: {
              k8sPodNamespace: "",
              k8sPodName: "",
              interfacesCount: 0,
            },
            AssignedTime: "0001-01-01T00:00:00Z",
            UnassignedTime: "2026-06-01T11:59:50Z",
          },
        },
        IsPrefix: false,
        AddressFamily: "",
      },
    },
    IPv6Cidrs: {},
    IsExcludedForPodIPs: false,
    RouteTableID: 254,
    SubnetID: "subnet-1",
  });
  assert.ok(second);
  const { AvailableIPv4Cidrs, ...others } = second as Record<string, unknown>;
  assert.equal(others["RouteTableID"], 10_001);
  assert.match(
    JSON.stringify(AvailableIPv4Cidrs),
    /^{"10\.0\.1\.16\/28":{"Cidr":{"IP":"10\.0\.1\.16","Mask":"\/\/\/\/8A=="},"IPAddresses":{"10\.0\.1\.17":.*"IsPrefix":true,/,
  );
});

Deno.test("a pod with addresses of both families is one for /ip-manager, and in both parts of /v1/enis", () => {
  const [eni] = VIEW.enis;
  const [allocation] = FACTS.allocations;
  assert.ok(eni && allocation);
  const ipv6 = {
    block: Prefix.parse("fd10::/80"),
    inEc2: true,
    inImds: true,
  };
  const addresses = {
    ipv4: Address.parse("10.0.1.5"),
    ipv6: Address.parse("fd10::a00:105"),
  };
  const facts = {
    ...FACTS,
    view: { ...VIEW, enis: [{ ...eni, ipv6 }] },
    allocations: [{ ...allocation, addresses }],
  };
  const { ips } = ipManagerAnswer(facts);
  assert.deepEqual(ips.map(({ ip }) => ip), ["10.0.1.5"]);
  const only = ipManagerAnswer({
    ...facts,
    records: [],
    allocations: [{ ...allocation, addresses: { ipv6: addresses.ipv6 } }],
  });
  assert.deepEqual(only.ips.map(({ ip }) => ip), ["fd10::a00:105"]);
  const text = JSON.stringify(upstreamEnis(facts));
  assert.match(
    text,
    /"IPv6Cidrs":{"fd10::\/80":{"Cidr":{"IP":"fd10::","Mask":"\/{13}wAAAAAAAA=="},"IPAddresses":{"fd10::a00:105":/,
  );
});

Deno.test("upstreamEnis() has no ENI before any is known", () => {
  const facts = { ...FACTS, view: undefined, records: [], allocations: [] };
  assert.deepEqual(upstreamEnis(facts), {
    "0": { TotalIPs: 0, AssignedIPs: 0, ENIs: {} },
  });
});
