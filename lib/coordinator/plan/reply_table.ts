import {
  COORDINATOR_MARK,
  COORDINATOR_NFT_TABLE,
  COORDINATOR_VETH,
} from "../../names/mod.ts";
import {
  nft,
  type NftNewTable,
  type NftTable,
  prepareTable,
} from "../../netlink/mod.ts";

/** Priority of the mangle chains of iptables. */
const MANGLE = -150;

/**
 * Marks connections that come in from the host, and the packets of both of
 * their directions, so that what a client of a NodePort gets leaves by the way
 * that its packets came.
 */
export const REPLY_TABLE: NftTable = {
  family: "inet",
  name: COORDINATOR_NFT_TABLE,
  counters: [],
  sets: [],
  chains: [{
    name: "prerouting",
    type: "filter",
    hook: "prerouting",
    priority: MANGLE,
    policy: "accept",
    rules: [
      nft.rule([
        nft.iifname(COORDINATOR_VETH),
        nft.ctState("new"),
        nft.setCtMark(COORDINATOR_MARK),
      ], { comment: "connections from the host" }),
      nft.rule([
        nft.iifname(COORDINATOR_VETH),
        nft.ctMark(COORDINATOR_MARK),
        nft.restoreMark(),
      ], { comment: "rp_filter looks the way back up by the mark" }),
    ],
  }, {
    name: "output",
    type: "route",
    hook: "output",
    priority: MANGLE,
    policy: "accept",
    rules: [
      nft.rule([nft.ctMark(COORDINATOR_MARK), nft.restoreMark()], {
        comment: "their answers",
      }),
    ],
  }],
};

/** {@linkcode REPLY_TABLE}, ready for pods that do not have it. */
export const NEW_REPLY_TABLE: NftNewTable = prepareTable(REPLY_TABLE);
