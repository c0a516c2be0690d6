/** The answers of AWS, and of anything that answers in its place. */
import assert from "node:assert/strict";
import { networkInterfaceOf } from "../../lib/aws/ec2/answers.ts";
import { AwsNoAnswerError } from "../../lib/aws/base/errors.ts";
import { parseXml, type XmlElement } from "../../lib/aws/base/xml.ts";
import type { Input, Target } from "./fuzzer.ts";

function write({ name, text, children }: XmlElement): string {
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<${name}>${escaped}${children.map(write).join("")}</${name}>`;
}

/** What was read and written is read as the same; as an interface it is whole, or refused. */
function readXml({ text }: Input): void {
  const root = parseXml(text);
  assert.deepEqual(parseXml(write(root)), root);
  const { networkInterfaceId, ipv4Prefixes } = networkInterfaceOf(root);
  assert.ok(networkInterfaceId !== "");
  for (const prefix of ipv4Prefixes) assert.ok(prefix.size > 0n);
}

/** By what they are for. */
export const AWS_TARGETS: readonly Target[] = [
  {
    name: "aws-xml",
    kind: "text",
    mayThrow: (error) =>
      error instanceof SyntaxError || error instanceof AwsNoAnswerError,
    run: readXml,
  },
];
