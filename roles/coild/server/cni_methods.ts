import { convertResult, CURRENT_CNI_VERSION } from "../../../lib/cni/mod.ts";
import { CNI, type CNIArgs, requestFields } from "../../../lib/cnirpc/mod.ts";
import {
  type BoundMethod,
  type CallContext,
  unary,
} from "../../../lib/grpc/server/mod.ts";
import type { CallCounter } from "../observe/call_counter.ts";
import { toGrpcError } from "../observe/cni_errors.ts";
import type { CniService } from "./cni_service.ts";

/** Ties the methods of `pkg.cnirpc.CNI` to the service. Errors are converted here, once, on the way out. */
export function cniMethods(
  service: CniService,
  calls: CallCounter,
): BoundMethod[] {
  const options = { fields: requestFields };
  const convert = <T>(fn: () => Promise<T>) => calls.count(() => converted(fn));
  const empty = (
    handler: (args: CNIArgs, context: CallContext) => Promise<void>,
  ) =>
  (args: CNIArgs, context: CallContext) =>
    convert(async () => {
      await handler(args, context);
      return {};
    });
  return [
    unary(CNI.method.add, (args, context) =>
      convert(async () => {
        const result = await service.add(args, context);
        const json = convertResult(result, CURRENT_CNI_VERSION);
        return { result: new TextEncoder().encode(JSON.stringify(json)) };
      }), options),
    unary(
      CNI.method.del,
      empty((args, context) => service.del(args, context)),
      options,
    ),
    unary(
      CNI.method.check,
      empty((args, context) => service.check(args, context)),
      options,
    ),
    unary(
      CNI.method.gc,
      empty((args, context) => service.gc(args, context)),
      options,
    ),
    unary(CNI.method.status, empty(async () => service.status()), options),
  ];
}

async function converted<T>(fn: () => Promise<T>): Promise<T> {
  try {
    return await fn();
  } catch (error) {
    throw toGrpcError(error);
  }
}
