// The commands of the documents.
import { testGroups } from "./docs_groups.ts";

testGroups("first");
