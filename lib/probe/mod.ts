/**
 * Questions to the machines of one link: whether an address is in use, whether
 * a gateway is alive; and announcements. ARP (RFC 826, RFC 5227) and neighbour
 * discovery (RFC 4861, RFC 4862) by packet sockets. And the packets of questions
 * that go further.
 *
 * @module
 */
export type { Later, ProbeLink, ProbeTimes } from "./exchange.ts";
export { announce, answers, findConflict } from "./probes.ts";
export { udpPacket } from "./udp.ts";
