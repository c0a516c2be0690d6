// coild's server, asked by grpcurl: grpc-go, which upstream's plugin uses too.
// Needs Go, to build grpcurl.
import assert from "node:assert/strict";
import { CallError } from "../../roles/coild/base/errors.ts";
import { cacheDir } from "../lab/cache.ts";
import { requireGo } from "../lab/go.ts";
import { isThere } from "../lab/packages.ts";
import { type Answer, CannedCoild } from "./testing.ts";

const GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3";

/**
 * Path of grpcurl, built once.
 *
 * @throws {GoError} when it has to be built, and Go is missing.
 */
async function grpcurl(): Promise<string> {
  const directory = `${cacheDir()}/grpcurl-v1.9.3`;
  const path = `${directory}/grpcurl`;
  if (isThere(path)) return path;
  await requireGo("/", "1.21");
  const { success, stderr } = await new Deno.Command("go", {
    args: ["install", GRPCURL],
    env: { GOBIN: directory, GOFLAGS: "-mod=mod" },
    stdout: "null",
    stderr: "piped",
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  return path;
}

/** Asks a server with this answer; options come before its address. */
async function ask(
  answer: Answer,
  options: readonly string[],
  words: readonly string[],
): Promise<{ code: number; text: string }> {
  await using coild = await CannedCoild.start(answer);
  const { code, stdout, stderr } = await new Deno.Command(await grpcurl(), {
    args: ["-plaintext", ...options, `unix://${coild.socket}`, ...words],
  }).output();
  const decoder = new TextDecoder();
  return { code, text: decoder.decode(stdout) + decoder.decode(stderr) };
}

const nothing: Answer = () => Promise.resolve({});

Deno.test("SV-1: grpcurl lists the services", async () => {
  const { code, text } = await ask(nothing, [], ["list"]);
  assert.equal(code, 0, text);
  assert.ok(text.split("\n").includes("pkg.cnirpc.CNI"), text);
});

Deno.test("SV-1: grpcurl describes the service", async () => {
  const words = ["describe", "pkg.cnirpc.CNI"];
  const { code, text } = await ask(nothing, [], words);
  assert.equal(code, 0, text);
  const line = "rpc Add ( .pkg.cnirpc.CNIArgs )";
  assert.ok(text.includes(line), text);
});

Deno.test("grpcurl makes a call", async () => {
  const seen: string[] = [];
  const echo: Answer = (args, { remainingMs }) => {
    seen.push(args.containerId, args.args["K"] ?? "");
    assert.ok(remainingMs, "grpc-timeout in grpc-go's units");
    return Promise.resolve({ cniVersion: "1.1.0" });
  };
  const request = '{"container_id":"cid","args":{"K":"v"}}';
  const { code, text } = await ask(
    echo,
    ["-max-time", "120", "-authority", "%2Frun%2Fcoild.sock", "-d", request],
    ["pkg.cnirpc.CNI/Add"],
  );
  assert.equal(code, 0, text);
  const { result } = JSON.parse(text);
  assert.equal(atob(result), '{"cniVersion":"1.1.0"}');
  assert.deepEqual(seen, ["cid", "v"]);
});

Deno.test("grpcurl sends and receives more than HTTP/2's first windows", async () => {
  const pad = "x".repeat(2_000_000);
  const netns = "y".repeat(100_000);
  let length = 0;
  const { code, text } = await ask(
    (args) => {
      length = args.netns.length;
      return Promise.resolve({ dns: { domain: pad } });
    },
    ["-d", JSON.stringify({ netns })],
    ["pkg.cnirpc.CNI/Add"],
  );
  assert.equal(code, 0, text.slice(0, 300));
  assert.equal(length, netns.length);
  assert.ok(atob(JSON.parse(text).result).includes(pad));
});

Deno.test("SV-14: grpcurl shows an error with its details", async () => {
  const { code, text } = await ask(
    () =>
      Promise.reject(
        new CallError("100 % später", { status: 9, code: 11, details: "d" }),
      ),
    ["-d", "{}"],
    ["pkg.cnirpc.CNI/Del"],
  );
  assert.notEqual(code, 0);
  for (
    const part of [
      "Code: FailedPrecondition",
      "Message: 100 % später",
      "type.googleapis.com/pkg.cnirpc.CNIError",
      "TRY_AGAIN_LATER",
    ]
  ) assert.ok(text.includes(part), text);
});

Deno.test("grpcurl gives up in time, and the handler is told", async () => {
  const { promise: told, resolve } = Promise.withResolvers<void>();
  let isAsked = false;
  const wait: Answer = async (_args, { signal }) => {
    isAsked = true;
    signal.addEventListener("abort", () => resolve(), { once: true });
    await told;
    signal.throwIfAborted();
  };
  // On a slow machine its time may be over before it has asked.
  for (let seconds = 10; !isAsked && seconds < 100; seconds *= 2) {
    const { code, text } = await ask(
      wait,
      ["-max-time", `${seconds}`, "-d", "{}"],
      ["pkg.cnirpc.CNI/Check"],
    );
    assert.notEqual(code, 0);
    assert.match(text, /DeadlineExceeded|deadline exceeded/i);
  }
  assert.ok(isAsked, "grpcurl has not asked");
  await told;
});
