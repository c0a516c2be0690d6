import assert from "node:assert/strict";
import { configureLogging } from "../../telemetry/mod.ts";
import { KubeApiError, KubeUnreachableError } from "../http/errors.ts";
import { Contact } from "./contact.ts";

const AWAY = new KubeUnreachableError("away");
const GONE = new KubeApiError("too old", { status: 410 });

Deno.test("Contact warns once for each time without the API server, and says when it is over", () => {
  const lines: string[] = [];
  configureLogging({ write: (line) => lines.push(line) });
  const messages = () => lines.splice(0).map((line) => JSON.parse(line).msg);
  const contact = new Contact("pods");
  assert.equal(contact.ageMs, Infinity);
  contact.made();
  assert.ok(contact.ageMs < 60_000);
  assert.deepEqual(messages(), []);
  contact.failed(AWAY);
  contact.failed(AWAY);
  assert.deepEqual(messages(), ["Informer cannot follow the API server"]);
  contact.made();
  contact.made();
  assert.deepEqual(messages(), ["Informer follows the API server again"]);
  contact.failed(AWAY);
  assert.deepEqual(messages(), ["Informer cannot follow the API server"]);
});

Deno.test("Contact does not take a version that is too old for a failure", () => {
  const lines: string[] = [];
  configureLogging({ write: (line) => lines.push(line) });
  const contact = new Contact("pods");
  contact.failed(GONE);
  contact.made();
  assert.deepEqual(lines, []);
});
