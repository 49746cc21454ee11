// @ts-check
// Written by `python -m tests.why.rules` from the tables of the rules and from docs/semantics.
"use strict";

/** Kafka's names of errors, by their codes. */
const ERROR_NAMES = {"-1": "UNKNOWN_SERVER_ERROR", "1": "OFFSET_OUT_OF_RANGE", "2": "CORRUPT_MESSAGE", "3": "UNKNOWN_TOPIC_OR_PARTITION", "4": "INVALID_FETCH_SIZE", "5": "LEADER_NOT_AVAILABLE", "6": "NOT_LEADER_OR_FOLLOWER", "7": "REQUEST_TIMED_OUT", "8": "BROKER_NOT_AVAILABLE", "9": "REPLICA_NOT_AVAILABLE", "10": "MESSAGE_TOO_LARGE", "11": "STALE_CONTROLLER_EPOCH", "12": "OFFSET_METADATA_TOO_LARGE", "13": "NETWORK_EXCEPTION", "14": "COORDINATOR_LOAD_IN_PROGRESS", "15": "COORDINATOR_NOT_AVAILABLE", "16": "NOT_COORDINATOR", "17": "INVALID_TOPIC_EXCEPTION", "18": "RECORD_LIST_TOO_LARGE", "19": "NOT_ENOUGH_REPLICAS", "20": "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "21": "INVALID_REQUIRED_ACKS", "22": "ILLEGAL_GENERATION", "23": "INCONSISTENT_GROUP_PROTOCOL", "24": "INVALID_GROUP_ID", "25": "UNKNOWN_MEMBER_ID", "26": "INVALID_SESSION_TIMEOUT", "27": "REBALANCE_IN_PROGRESS", "28": "INVALID_COMMIT_OFFSET_SIZE", "29": "TOPIC_AUTHORIZATION_FAILED", "30": "GROUP_AUTHORIZATION_FAILED", "31": "CLUSTER_AUTHORIZATION_FAILED", "32": "INVALID_TIMESTAMP", "33": "UNSUPPORTED_SASL_MECHANISM", "34": "ILLEGAL_SASL_STATE", "35": "UNSUPPORTED_VERSION", "36": "TOPIC_ALREADY_EXISTS", "37": "INVALID_PARTITIONS", "38": "INVALID_REPLICATION_FACTOR", "39": "INVALID_REPLICA_ASSIGNMENT", "40": "INVALID_CONFIG", "41": "NOT_CONTROLLER", "42": "INVALID_REQUEST", "43": "UNSUPPORTED_FOR_MESSAGE_FORMAT", "44": "POLICY_VIOLATION", "45": "OUT_OF_ORDER_SEQUENCE_NUMBER", "46": "DUPLICATE_SEQUENCE_NUMBER", "47": "INVALID_PRODUCER_EPOCH", "48": "INVALID_TXN_STATE", "49": "INVALID_PRODUCER_ID_MAPPING", "50": "INVALID_TRANSACTION_TIMEOUT", "51": "CONCURRENT_TRANSACTIONS", "52": "TRANSACTION_COORDINATOR_FENCED", "53": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "54": "SECURITY_DISABLED", "55": "OPERATION_NOT_ATTEMPTED", "56": "KAFKA_STORAGE_ERROR", "57": "LOG_DIR_NOT_FOUND", "58": "SASL_AUTHENTICATION_FAILED", "59": "UNKNOWN_PRODUCER_ID", "60": "REASSIGNMENT_IN_PROGRESS", "61": "DELEGATION_TOKEN_AUTH_DISABLED", "62": "DELEGATION_TOKEN_NOT_FOUND", "63": "DELEGATION_TOKEN_OWNER_MISMATCH", "64": "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "65": "DELEGATION_TOKEN_AUTHORIZATION_FAILED", "66": "DELEGATION_TOKEN_EXPIRED", "67": "INVALID_PRINCIPAL_TYPE", "68": "NON_EMPTY_GROUP", "69": "GROUP_ID_NOT_FOUND", "70": "FETCH_SESSION_ID_NOT_FOUND", "71": "INVALID_FETCH_SESSION_EPOCH", "72": "LISTENER_NOT_FOUND", "73": "TOPIC_DELETION_DISABLED", "74": "FENCED_LEADER_EPOCH", "75": "UNKNOWN_LEADER_EPOCH", "76": "UNSUPPORTED_COMPRESSION_TYPE", "77": "STALE_BROKER_EPOCH", "78": "OFFSET_NOT_AVAILABLE", "79": "MEMBER_ID_REQUIRED", "80": "PREFERRED_LEADER_NOT_AVAILABLE", "81": "GROUP_MAX_SIZE_REACHED", "82": "FENCED_INSTANCE_ID", "83": "ELIGIBLE_LEADERS_NOT_AVAILABLE", "84": "ELECTION_NOT_NEEDED", "85": "NO_REASSIGNMENT_IN_PROGRESS", "86": "GROUP_SUBSCRIBED_TO_TOPIC", "87": "INVALID_RECORD", "88": "UNSTABLE_OFFSET_COMMIT", "89": "THROTTLING_QUOTA_EXCEEDED", "90": "PRODUCER_FENCED", "91": "RESOURCE_NOT_FOUND", "92": "DUPLICATE_RESOURCE", "93": "UNACCEPTABLE_CREDENTIAL", "94": "INCONSISTENT_VOTER_SET", "95": "INVALID_UPDATE_VERSION", "96": "FEATURE_UPDATE_FAILED", "97": "PRINCIPAL_DESERIALIZATION_FAILURE", "98": "SNAPSHOT_NOT_FOUND", "99": "POSITION_OUT_OF_RANGE", "100": "UNKNOWN_TOPIC_ID", "101": "DUPLICATE_BROKER_REGISTRATION", "102": "BROKER_ID_NOT_REGISTERED", "103": "INCONSISTENT_TOPIC_ID", "104": "INCONSISTENT_CLUSTER_ID", "105": "TRANSACTIONAL_ID_NOT_FOUND", "106": "FETCH_SESSION_TOPIC_ID_ERROR", "107": "INELIGIBLE_REPLICA", "108": "NEW_LEADER_ELECTED", "109": "OFFSET_MOVED_TO_TIERED_STORAGE", "110": "FENCED_MEMBER_EPOCH", "111": "UNRELEASED_INSTANCE_ID", "112": "UNSUPPORTED_ASSIGNOR", "113": "STALE_MEMBER_EPOCH", "114": "MISMATCHED_ENDPOINT_TYPE", "115": "UNSUPPORTED_ENDPOINT_TYPE", "116": "UNKNOWN_CONTROLLER_ID", "117": "UNKNOWN_SUBSCRIPTION_ID", "118": "TELEMETRY_TOO_LARGE", "119": "INVALID_REGISTRATION", "120": "TRANSACTION_ABORTABLE", "121": "INVALID_RECORD_STATE", "122": "SHARE_SESSION_NOT_FOUND", "123": "INVALID_SHARE_SESSION_EPOCH", "124": "FENCED_STATE_EPOCH", "125": "INVALID_VOTER_KEY", "126": "DUPLICATE_VOTER", "127": "VOTER_NOT_FOUND", "128": "INVALID_REGULAR_EXPRESSION", "129": "REBOOTSTRAP_REQUIRED", "130": "STREAMS_INVALID_TOPOLOGY", "131": "STREAMS_INVALID_TOPOLOGY_EPOCH", "132": "STREAMS_TOPOLOGY_FENCED", "133": "SHARE_SESSION_LIMIT_REACHED", "134": "GROUP_DELETION_FAILED", "135": "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", "136": "CONTROLLER_ID_NOT_REGISTERED"};

/** By kind of group and arrow `from>to`: its label, the rules of the table for it, and what it cites. */
const ARROWS = {
 "classic": {
  "Empty>PreparingRebalance": {
   "label": "joins",
   "cites": [
    "2.4 step 2",
    "2.4 step 3"
   ],
   "rules": [
    {
     "rule": "add",
     "does": "Add the member, park its request, start a rebalance.",
     "triggers": [
      "JoinGroup without an id, dynamic, before v4",
      "JoinGroup without an id, with an instance id the group does not have",
      "JoinGroup with an id handed out by error 79"
     ]
    }
   ]
  },
  "PreparingRebalance>Empty": {
   "label": "nobody joined",
   "cites": [
    "2.5 step 4",
    "2.5 step 5"
   ],
   "rules": [
    {
     "rule": "end-round",
     "does": "Drop dynamic members that did not rejoin and start the next generation.",
     "triggers": [
      "the join round's time is up"
     ]
    },
    {
     "rule": "leave-in-round",
     "does": "Remove the leavers; the round ends if all others joined and it is not the initial one.",
     "triggers": [
      "LeaveGroup with at least one member or pending id of the group"
     ]
    },
    {
     "rule": "expire-in-round",
     "does": "Remove the member, answering its parked join with 25; the round ends if all others joined.",
     "triggers": [
      "a member's session runs out"
     ]
    },
    {
     "rule": "forget-pending-in-round",
     "does": "Forget the pending id; the round ends if all members have joined.",
     "triggers": [
      "a pending id runs out"
     ]
    },
    {
     "rule": "leave",
     "does": "Remove the leavers, start a rebalance.",
     "triggers": []
    },
    {
     "rule": "expire",
     "does": "Remove the member, start a rebalance.",
     "triggers": []
    },
    {
     "rule": "expel-unsynced",
     "does": "Remove the members that have not synced, start a rebalance.",
     "triggers": []
    }
   ]
  },
  "PreparingRebalance>CompletingRebalance": {
   "label": "all joined, or time is up",
   "cites": [
    "2.4 step 3",
    "2.4 step 4",
    "2.5 step 1",
    "2.5 step 5"
   ],
   "rules": [
    {
     "rule": "end-round",
     "does": "Drop dynamic members that did not rejoin and start the next generation.",
     "triggers": [
      "the join round's time is up"
     ]
    },
    {
     "rule": "leave-in-round",
     "does": "Remove the leavers; the round ends if all others joined and it is not the initial one.",
     "triggers": [
      "LeaveGroup with at least one member or pending id of the group"
     ]
    },
    {
     "rule": "expire-in-round",
     "does": "Remove the member, answering its parked join with 25; the round ends if all others joined.",
     "triggers": [
      "a member's session runs out"
     ]
    },
    {
     "rule": "forget-pending-in-round",
     "does": "Forget the pending id; the round ends if all members have joined.",
     "triggers": [
      "a pending id runs out"
     ]
    },
    {
     "rule": "add-in-round",
     "does": "Add the member, park its request; the round ends if all joined and it is not the initial one.",
     "triggers": [
      "JoinGroup without an id, dynamic, before v4",
      "JoinGroup without an id, with an instance id the group does not have",
      "JoinGroup with an id handed out by error 79"
     ]
    },
    {
     "rule": "rejoin-in-round",
     "does": "Update the member, park its request, answering an earlier parked one with 27.",
     "triggers": [
      "JoinGroup of a follower, protocols unchanged",
      "JoinGroup of the leader, protocols unchanged",
      "JoinGroup of a member, protocols changed"
     ]
    },
    {
     "rule": "take-over-in-round",
     "does": "Give the static member a new id, fence the old one (82), park the request.",
     "triggers": [
      "JoinGroup without an id, with an instance id the group has",
      "JoinGroup that takes a static member over, whose record is too large to store"
     ]
    },
    {
     "rule": "rejoin",
     "does": "Update the member, park its request, start a rebalance.",
     "triggers": []
    },
    {
     "rule": "take-over",
     "does": "Give the static member a new id, fence the old one (82), park the request, start a rebalance.",
     "triggers": []
    },
    {
     "rule": "take-over-stable",
     "does": "Give the static member a new id, fence the old one (82); answer with the current generation, unless the protocol to select changes: then park the request and start a rebalance.",
     "triggers": []
    }
   ]
  },
  "CompletingRebalance>Stable": {
   "label": "leader's SyncGroup",
   "cites": [
    "2.6 step 1",
    "2.6 step 2"
   ],
   "rules": [
    {
     "rule": "assign",
     "does": "Store the leader's assignments, answer every parked sync; the group is Stable.",
     "triggers": [
      "SyncGroup of the leader"
     ]
    }
   ]
  },
  "CompletingRebalance>PreparingRebalance": {
   "label": "joins, leaves or is missed",
   "cites": [
    "2.4 step 1",
    "2.6 step 3",
    "2.6 step 5",
    "2.7 step 2"
   ],
   "rules": [
    {
     "rule": "add",
     "does": "Add the member, park its request, start a rebalance.",
     "triggers": [
      "JoinGroup without an id, dynamic, before v4",
      "JoinGroup without an id, with an instance id the group does not have",
      "JoinGroup with an id handed out by error 79"
     ]
    },
    {
     "rule": "rejoin",
     "does": "Update the member, park its request, start a rebalance.",
     "triggers": [
      "JoinGroup of a member, protocols changed"
     ]
    },
    {
     "rule": "leave",
     "does": "Remove the leavers, start a rebalance.",
     "triggers": [
      "LeaveGroup with at least one member or pending id of the group"
     ]
    },
    {
     "rule": "expire",
     "does": "Remove the member, start a rebalance.",
     "triggers": [
      "a member's session runs out"
     ]
    },
    {
     "rule": "expel-unsynced",
     "does": "Remove the members that have not synced, start a rebalance.",
     "triggers": [
      "the time to sync is up"
     ]
    },
    {
     "rule": "take-over",
     "does": "Give the static member a new id, fence the old one (82), park the request, start a rebalance.",
     "triggers": [
      "JoinGroup without an id, with an instance id the group has",
      "JoinGroup that takes a static member over, whose record is too large to store"
     ]
    },
    {
     "rule": "reject-assignments",
     "does": "Answer every sync with UNKNOWN_SERVER_ERROR (-1), start a rebalance.",
     "triggers": [
      "SyncGroup of the leader, with assignments too large to store"
     ]
    }
   ]
  },
  "Stable>PreparingRebalance": {
   "label": "joins, leaves or is missed",
   "cites": [
    "2.4 step 2",
    "2.4 step 4",
    "2.7 step 2",
    "2.8 step 6"
   ],
   "rules": [
    {
     "rule": "add",
     "does": "Add the member, park its request, start a rebalance.",
     "triggers": [
      "JoinGroup without an id, dynamic, before v4",
      "JoinGroup without an id, with an instance id the group does not have",
      "JoinGroup with an id handed out by error 79"
     ]
    },
    {
     "rule": "rejoin",
     "does": "Update the member, park its request, start a rebalance.",
     "triggers": [
      "JoinGroup of the leader, protocols unchanged",
      "JoinGroup of a member, protocols changed"
     ]
    },
    {
     "rule": "leave",
     "does": "Remove the leavers, start a rebalance.",
     "triggers": [
      "LeaveGroup with at least one member or pending id of the group"
     ]
    },
    {
     "rule": "expire",
     "does": "Remove the member, start a rebalance.",
     "triggers": [
      "a member's session runs out"
     ]
    },
    {
     "rule": "expel-unsynced",
     "does": "Remove the members that have not synced, start a rebalance.",
     "triggers": [
      "the time to sync is up"
     ]
    },
    {
     "rule": "take-over-stable",
     "does": "Give the static member a new id, fence the old one (82); answer with the current generation, unless the protocol to select changes: then park the request and start a rebalance.",
     "triggers": [
      "JoinGroup without an id, with an instance id the group has"
     ]
    },
    {
     "rule": "shrink",
     "does": "Start a rebalance that refuses the last members to join.",
     "triggers": [
      "loaded with more members than group.max.size"
     ]
    }
   ]
  },
  "Empty>Dead": {
   "label": "deleted or expired",
   "cites": [
    "2.1 step 1",
    "2.1 step 2"
   ],
   "rules": [
    {
     "rule": "delete",
     "does": "Delete the offsets and the group.",
     "triggers": [
      "DeleteGroups"
     ]
    }
   ]
  },
  "PreparingRebalance>Dead": {
   "label": "moved to another broker",
   "cites": [
    "2.1 step 2"
   ],
   "rules": []
  },
  "CompletingRebalance>Dead": {
   "label": "moved to another broker",
   "cites": [
    "2.1 step 2"
   ],
   "rules": []
  },
  "Stable>Dead": {
   "label": "moved to another broker",
   "cites": [
    "2.1 step 2"
   ],
   "rules": []
  }
 },
 "consumer": {
  "Empty>Assigning": {
   "label": "joins",
   "cites": [
    "4.3 step 1",
    "4.5 step 7"
   ],
   "rules": []
  },
  "Assigning>Reconciling": {
   "label": "target computed",
   "cites": [
    "4.1 step 3",
    "4.5 step 4"
   ],
   "rules": []
  },
  "Reconciling>Stable": {
   "label": "all have arrived",
   "cites": [
    "4.1 step 2",
    "4.6 step 2",
    "4.6 step 3"
   ],
   "rules": []
  },
  "Reconciling>Assigning": {
   "label": "new group epoch",
   "cites": [
    "4.1 step 1",
    "4.5 step 2",
    "4.7 step 1"
   ],
   "rules": []
  },
  "Stable>Assigning": {
   "label": "new group epoch",
   "cites": [
    "4.1 step 1",
    "4.5 step 2",
    "4.7 step 1"
   ],
   "rules": []
  },
  "Stable>Reconciling": {
   "label": "a static member is away",
   "cites": [
    "4.1 step 2",
    "4.7 step 2"
   ],
   "rules": []
  },
  "Assigning>Empty": {
   "label": "last one goes",
   "cites": [
    "4.1 step 2",
    "4.6 step 6",
    "4.7 step 1"
   ],
   "rules": []
  },
  "Reconciling>Empty": {
   "label": "last one goes",
   "cites": [
    "4.1 step 2",
    "4.6 step 6",
    "4.7 step 1"
   ],
   "rules": []
  },
  "Stable>Empty": {
   "label": "last one goes",
   "cites": [
    "4.1 step 2",
    "4.6 step 6",
    "4.7 step 1"
   ],
   "rules": []
  },
  "Empty>Dead": {
   "label": "deleted or expired",
   "cites": [
    "2.11 step 8",
    "3.4 step 2"
   ],
   "rules": []
  }
 },
 "share": {
  "Empty>Stable": {
   "label": "joins",
   "cites": [
    "4.13 step 2",
    "4.13 step 3"
   ],
   "rules": []
  },
  "Stable>Empty": {
   "label": "last one goes",
   "cites": [
    "4.13 step 6"
   ],
   "rules": []
  },
  "Empty>Dead": {
   "label": "deleted",
   "cites": [
    "2.11 step 8",
    "4.13 step 6"
   ],
   "rules": []
  }
 },
 "streams": {
  "Empty>Assigning": {
   "label": "joins",
   "cites": [
    "4.12 step 3",
    "4.12 step 8"
   ],
   "rules": []
  },
  "Empty>NotReady": {
   "label": "joins, topics are missing",
   "cites": [
    "4.12 step 3",
    "4.12 step 5",
    "4.12 step 7"
   ],
   "rules": []
  },
  "NotReady>Assigning": {
   "label": "ready",
   "cites": [
    "4.12 step 5",
    "4.12 step 7"
   ],
   "rules": []
  },
  "Assigning>Reconciling": {
   "label": "target computed",
   "cites": [
    "4.12 step 8",
    "4.12 step 9"
   ],
   "rules": []
  },
  "Reconciling>Stable": {
   "label": "all have arrived",
   "cites": [
    "4.12 step 10"
   ],
   "rules": []
  },
  "Reconciling>Assigning": {
   "label": "new group epoch",
   "cites": [
    "4.12 step 7",
    "4.12 step 13"
   ],
   "rules": []
  },
  "Stable>Assigning": {
   "label": "new group epoch",
   "cites": [
    "4.12 step 7",
    "4.12 step 13"
   ],
   "rules": []
  },
  "Assigning>NotReady": {
   "label": "topics are missing, or have wrong numbers of partitions",
   "cites": [
    "4.12 step 5",
    "4.12 step 7"
   ],
   "rules": []
  },
  "Reconciling>NotReady": {
   "label": "topics are missing, or have wrong numbers of partitions",
   "cites": [
    "4.12 step 5",
    "4.12 step 7"
   ],
   "rules": []
  },
  "Stable>NotReady": {
   "label": "topics are missing, or have wrong numbers of partitions",
   "cites": [
    "4.12 step 5",
    "4.12 step 7"
   ],
   "rules": []
  },
  "NotReady>Empty": {
   "label": "last one goes",
   "cites": [
    "4.12 step 12",
    "4.12 step 13"
   ],
   "rules": []
  },
  "Assigning>Empty": {
   "label": "last one goes",
   "cites": [
    "4.12 step 12",
    "4.12 step 13"
   ],
   "rules": []
  },
  "Reconciling>Empty": {
   "label": "last one goes",
   "cites": [
    "4.12 step 12",
    "4.12 step 13"
   ],
   "rules": []
  },
  "Stable>Empty": {
   "label": "last one goes",
   "cites": [
    "4.12 step 12",
    "4.12 step 13"
   ],
   "rules": []
  },
  "Empty>Dead": {
   "label": "deleted or expired",
   "cites": [
    "2.11 step 8",
    "3.4 step 2"
   ],
   "rules": []
  }
 }
};

/** The table of the classic group: by what may happen and the state that it finds, the rule. */
const TABLE = {"JoinGroup without an id, dynamic, before v4": {"Empty": "add", "PreparingRebalance": "add-in-round", "CompletingRebalance": "add", "Stable": "add", "Dead": "refuse-not-available"}, "JoinGroup without an id, dynamic, v4 and later": {"Empty": "hand-out-id", "PreparingRebalance": "hand-out-id", "CompletingRebalance": "hand-out-id", "Stable": "hand-out-id", "Dead": "refuse-not-available"}, "JoinGroup without an id, with an instance id the group does not have": {"Empty": "add", "PreparingRebalance": "add-in-round", "CompletingRebalance": "add", "Stable": "add", "Dead": "refuse-not-available"}, "JoinGroup without an id, with an instance id the group has": {"Empty": "refuse-impossible", "PreparingRebalance": "take-over-in-round", "CompletingRebalance": "take-over", "Stable": "take-over-stable", "Dead": "refuse-not-available"}, "JoinGroup with an id handed out by error 79": {"Empty": "add", "PreparingRebalance": "add-in-round", "CompletingRebalance": "add", "Stable": "add", "Dead": "refuse-not-available"}, "JoinGroup of a follower, protocols unchanged": {"Empty": "refuse-unknown", "PreparingRebalance": "rejoin-in-round", "CompletingRebalance": "current-generation", "Stable": "current-generation", "Dead": "refuse-not-available"}, "JoinGroup of the leader, protocols unchanged": {"Empty": "refuse-unknown", "PreparingRebalance": "rejoin-in-round", "CompletingRebalance": "current-generation", "Stable": "rejoin", "Dead": "refuse-not-available"}, "JoinGroup of a member, protocols changed": {"Empty": "refuse-unknown", "PreparingRebalance": "rejoin-in-round", "CompletingRebalance": "rejoin", "Stable": "rejoin", "Dead": "refuse-not-available"}, "JoinGroup of a client for which group.max.size leaves no room": {"Empty": "refuse-impossible", "PreparingRebalance": "turn-away", "CompletingRebalance": "turn-away", "Stable": "turn-away", "Dead": "refuse-not-available"}, "JoinGroup of another protocol type, or without a protocol that all members support": {"Empty": "refuse-unsupported", "PreparingRebalance": "refuse-unsupported", "CompletingRebalance": "refuse-unsupported", "Stable": "refuse-unsupported", "Dead": "refuse-not-available"}, "JoinGroup with an id handed out by error 79, and an instance id": {"Empty": "refuse-impossible", "PreparingRebalance": "refuse-impossible", "CompletingRebalance": "refuse-impossible", "Stable": "refuse-impossible", "Dead": "refuse-not-available"}, "JoinGroup with an id, or an instance id beside it, that the group does not have": {"Empty": "refuse-unknown", "PreparingRebalance": "refuse-unknown", "CompletingRebalance": "refuse-unknown", "Stable": "refuse-unknown", "Dead": "refuse-not-available"}, "JoinGroup with an id, and the instance id of another member": {"Empty": "refuse-fenced", "PreparingRebalance": "refuse-fenced", "CompletingRebalance": "refuse-fenced", "Stable": "refuse-fenced", "Dead": "refuse-not-available"}, "JoinGroup that takes a static member over, whose record is too large to store": {"Empty": "refuse-impossible", "PreparingRebalance": "take-over-in-round", "CompletingRebalance": "take-over", "Stable": "keep-old", "Dead": "refuse-not-available"}, "SyncGroup of a follower": {"Empty": "refuse-unknown", "PreparingRebalance": "refuse-rebalancing", "CompletingRebalance": "park-sync", "Stable": "stored-assignment", "Dead": "refuse-not-available"}, "SyncGroup of the leader": {"Empty": "refuse-unknown", "PreparingRebalance": "refuse-rebalancing", "CompletingRebalance": "assign", "Stable": "stored-assignment", "Dead": "refuse-not-available"}, "SyncGroup of the leader, with assignments too large to store": {"Empty": "refuse-unknown", "PreparingRebalance": "refuse-rebalancing", "CompletingRebalance": "reject-assignments", "Stable": "stored-assignment", "Dead": "refuse-not-available"}, "Heartbeat": {"Empty": "refuse-unknown", "PreparingRebalance": "renew-and-call", "CompletingRebalance": "renew", "Stable": "renew", "Dead": "refuse-not-available"}, "LeaveGroup with at least one member or pending id of the group": {"Empty": "forget-pending", "PreparingRebalance": "leave-in-round", "CompletingRebalance": "leave", "Stable": "leave", "Dead": "refuse-not-available"}, "OffsetCommit of a member": {"Empty": "refuse-unknown", "PreparingRebalance": "renew", "CompletingRebalance": "refuse-rebalancing", "Stable": "renew", "Dead": "refuse-not-available"}, "OffsetCommit without a generation": {"Empty": "accept", "PreparingRebalance": "refuse-unknown", "CompletingRebalance": "refuse-unknown", "Stable": "refuse-unknown", "Dead": "refuse-not-available"}, "TxnOffsetCommit of a member": {"Empty": "refuse-unknown", "PreparingRebalance": "accept", "CompletingRebalance": "accept", "Stable": "accept", "Dead": "refuse-not-available"}, "TxnOffsetCommit of a member without a generation": {"Empty": "accept", "PreparingRebalance": "refuse-unknown", "CompletingRebalance": "refuse-unknown", "Stable": "refuse-unknown", "Dead": "refuse-not-available"}, "TxnOffsetCommit without member fields, as before KIP-447": {"Empty": "accept", "PreparingRebalance": "accept", "CompletingRebalance": "accept", "Stable": "accept", "Dead": "refuse-not-available"}, "OffsetDelete at a group of consumers": {"Empty": "accept", "PreparingRebalance": "accept", "CompletingRebalance": "accept", "Stable": "accept", "Dead": "refuse-not-found"}, "OffsetDelete at a group of another protocol type": {"Empty": "accept", "PreparingRebalance": "refuse-not-empty", "CompletingRebalance": "refuse-not-empty", "Stable": "refuse-not-empty", "Dead": "refuse-not-found"}, "DescribeGroups": {"Empty": "show", "PreparingRebalance": "show", "CompletingRebalance": "show", "Stable": "show-stable", "Dead": "show-dead"}, "DeleteGroups": {"Empty": "delete", "PreparingRebalance": "refuse-not-empty", "CompletingRebalance": "refuse-not-empty", "Stable": "refuse-not-empty", "Dead": "refuse-not-found"}, "a member's session runs out": {"Empty": "ignore", "PreparingRebalance": "expire-in-round", "CompletingRebalance": "expire", "Stable": "expire", "Dead": "ignore"}, "a pending id runs out": {"Empty": "forget-pending", "PreparingRebalance": "forget-pending-in-round", "CompletingRebalance": "forget-pending", "Stable": "forget-pending", "Dead": "ignore"}, "the join round's time is up": {"Empty": "ignore", "PreparingRebalance": "end-round", "CompletingRebalance": "ignore", "Stable": "ignore", "Dead": "ignore"}, "the time to sync is up": {"Empty": "ignore", "PreparingRebalance": "ignore", "CompletingRebalance": "expel-unsynced", "Stable": "expel-unsynced", "Dead": "ignore"}, "loaded with more members than group.max.size": {"Empty": "ignore", "PreparingRebalance": "ignore", "CompletingRebalance": "ignore", "Stable": "shrink", "Dead": "ignore"}};

/** What each of these rules does, and the error that it answers. */
const RULES = {"add": {"does": "Add the member, park its request, start a rebalance.", "error": 0}, "add-in-round": {"does": "Add the member, park its request; the round ends if all joined and it is not the initial one.", "error": 0}, "hand-out-id": {"does": "Answer MEMBER_ID_REQUIRED (79) with a new id and wait for it for the session timeout.", "error": 79}, "take-over": {"does": "Give the static member a new id, fence the old one (82), park the request, start a rebalance.", "error": 0}, "take-over-in-round": {"does": "Give the static member a new id, fence the old one (82), park the request.", "error": 0}, "take-over-stable": {"does": "Give the static member a new id, fence the old one (82); answer with the current generation, unless the protocol to select changes: then park the request and start a rebalance.", "error": 0}, "rejoin": {"does": "Update the member, park its request, start a rebalance.", "error": 0}, "rejoin-in-round": {"does": "Update the member, park its request, answering an earlier parked one with 27.", "error": 0}, "current-generation": {"does": "Answer with the current generation; the leader also gets the members.", "error": 0}, "turn-away": {"does": "Answer GROUP_MAX_SIZE_REACHED (81); a member is removed.", "error": 81}, "keep-old": {"does": "Answer UNKNOWN_SERVER_ERROR (-1); the static member stays unchanged.", "error": -1}, "park-sync": {"does": "Park the request until the leader's arrives.", "error": 0}, "assign": {"does": "Store the leader's assignments, answer every parked sync; the group is Stable.", "error": 0}, "reject-assignments": {"does": "Answer every sync with UNKNOWN_SERVER_ERROR (-1), start a rebalance.", "error": -1}, "stored-assignment": {"does": "Answer with the member's stored assignment.", "error": 0}, "accept": {"does": "Accept.", "error": 0}, "renew": {"does": "Renew the session, accept.", "error": 0}, "renew-and-call": {"does": "Renew the session, answer REBALANCE_IN_PROGRESS (27).", "error": 27}, "leave": {"does": "Remove the leavers, start a rebalance.", "error": 0}, "leave-in-round": {"does": "Remove the leavers; the round ends if all others joined and it is not the initial one.", "error": 0}, "forget-pending": {"does": "Forget the pending id.", "error": 0}, "forget-pending-in-round": {"does": "Forget the pending id; the round ends if all members have joined.", "error": 0}, "expire": {"does": "Remove the member, start a rebalance.", "error": 0}, "expire-in-round": {"does": "Remove the member, answering its parked join with 25; the round ends if all others joined.", "error": 0}, "end-round": {"does": "Drop dynamic members that did not rejoin and start the next generation.", "error": 0}, "expel-unsynced": {"does": "Remove the members that have not synced, start a rebalance.", "error": 0}, "shrink": {"does": "Start a rebalance that refuses the last members to join.", "error": 0}, "show": {"does": "Show the members without metadata and protocol.", "error": 0}, "show-stable": {"does": "Show the members with metadata, and the protocol.", "error": 0}, "show-dead": {"does": "Show a Dead group without members.", "error": 69}, "delete": {"does": "Delete the offsets and the group.", "error": 0}, "ignore": {"does": "Do nothing.", "error": 0}, "refuse-unknown": {"does": "UNKNOWN_MEMBER_ID (25).", "error": 25}, "refuse-fenced": {"does": "FENCED_INSTANCE_ID (82).", "error": 82}, "refuse-unsupported": {"does": "INCONSISTENT_GROUP_PROTOCOL (23).", "error": 23}, "refuse-rebalancing": {"does": "REBALANCE_IN_PROGRESS (27).", "error": 27}, "refuse-not-empty": {"does": "NON_EMPTY_GROUP (68).", "error": 68}, "refuse-not-found": {"does": "GROUP_ID_NOT_FOUND (69).", "error": 69}, "refuse-not-available": {"does": "COORDINATOR_NOT_AVAILABLE (15).", "error": 15}, "refuse-impossible": {"does": "UNKNOWN_SERVER_ERROR (-1): no group reaches this case.", "error": -1}};

/** The rules of docs/semantics that are cited: their text, and where they come from. */
const SEMANTICS = {
 "2.1 step 1": {
  "text": "A new group is Empty and has generation 0. A deleted group leaves nothing behind: the next group of that name starts at generation 0 again.",
  "origins": [
   "ClassicGroup.transitionTo"
  ],
  "section": "2.1"
 },
 "2.1 step 2": {
  "text": "A group becomes Dead only when its coordinator unloads the partition. Clients do not see that state: they get 16.",
  "origins": [
   "GroupMetadataManager.onUnloaded"
  ],
  "section": "2.1"
 },
 "2.11 step 8": {
  "text": "DeleteGroups answers for each group 0, 68, 69, 24 (null id) or 30, since 4.4 also 134 (4.10 rule 35). A group that is named twice is deleted once.",
  "origins": [
   "GroupCoordinatorService.deleteGroups"
  ],
  "section": "2.11"
 },
 "2.4 step 1": {
  "text": "In CompletingRebalance, all assignments are cleared and every parked SyncGroup is answered 27.",
  "origins": [
   "GroupMetadataManager.prepareRebalance"
  ],
  "section": "2.4"
 },
 "2.4 step 2": {
  "text": "The timer of the sync phase is cancelled. The state becomes PreparingRebalance; the generation does not change yet.",
  "origins": [
   "GroupMetadataManager.prepareRebalance"
  ],
  "section": "2.4"
 },
 "2.4 step 3": {
  "text": "The rebalance of an Empty group is the initial one. It waits group.initial.rebalance.delay.ms (D) for more members. If a new member joined in that time, it waits for D again, at most until the longest rebalance timeout at the start has passed. It does not end early when all have joined. This holds each time the group was Empty.",
  "origins": [
   "KIP-134",
   "GroupMetadataManager.tryCompleteInitialRebalanceElseSchedule"
  ],
  "section": "2.4"
 },
 "2.4 step 4": {
  "text": "From other states there is no delay. The round ends when all members have joined and no id is pending, or when the longest rebalance timeout of the members has passed.",
  "origins": [
   "KIP-394",
   "GroupMetadataManager.maybeCompleteJoinElseSchedule"
  ],
  "section": "2.4"
 },
 "2.5 step 1": {
  "text": "Dynamic members that have not joined again are removed. Static ones stay.",
  "origins": [
   "KIP-345",
   "GroupMetadataManager.completeClassicGroupJoin"
  ],
  "section": "2.5"
 },
 "2.5 step 4": {
  "text": "The generation grows by one, even if the group becomes Empty.",
  "origins": [
   "ClassicGroup.initNextGeneration"
  ],
  "section": "2.5"
 },
 "2.5 step 5": {
  "text": "Without members the group becomes Empty, and a group record without members is written. With members the coordinator chooses the protocol, the group becomes CompletingRebalance, and every parked JoinGroup is answered: the leader gets all members with their metadata of that protocol, the others none. Every session starts again. Every member, absent static ones too, must sync within the longest rebalance timeout.",
  "origins": [
   "GroupMetadataManager.completeClassicGroupJoin"
  ],
  "section": "2.5"
 },
 "2.6 step 1": {
  "text": "A follower's SyncGroup waits for the leader's.",
  "origins": [
   "GroupMetadataManager.classicGroupSyncToClassicGroup"
  ],
  "section": "2.6"
 },
 "2.6 step 2": {
  "text": "The leader's SyncGroup writes a group record. When the record is committed and the group is still in CompletingRebalance with the same generation, the assignments take effect, all parked SyncGroups are answered, and the group is Stable. An assignment may be half a megabyte, or missing.",
  "origins": [
   "GroupMetadataManager.classicGroupSyncToClassicGroup"
  ],
  "section": "2.6"
 },
 "2.6 step 3": {
  "text": "If the record cannot be written, all parked SyncGroups get the error of section 2.10, the assignments are cleared, and a rebalance begins. A record above the topic's max.message.bytes is such a case: -1, then heartbeats are 27. Large metadata is accepted in a JoinGroup, and fails here.",
  "origins": [
   "GroupMetadataManager.resetAndPropagateAssignmentWithError"
  ],
  "section": "2.6"
 },
 "2.6 step 5": {
  "text": "When the time of the sync phase is over, members that have not synced are removed, static ones too, and a rebalance begins. Heartbeats do not prevent it. This holds in CompletingRebalance and in Stable.",
  "origins": [
   "GroupMetadataManager.expirePendingSync"
  ],
  "section": "2.6"
 },
 "2.7 step 2": {
  "text": "When a session ends, a parked JoinGroup is answered 25 and the member is removed, a static one too. In Stable and CompletingRebalance a rebalance begins; in PreparingRebalance the round ends if all others have joined.",
  "origins": [
   "GroupMetadataManager.expireClassicGroupMemberHeartbeat"
  ],
  "section": "2.7"
 },
 "2.8 step 6": {
  "text": "In Stable with another chosen protocol, and in CompletingRebalance, a rebalance begins. In PreparingRebalance the request is parked, and the round may end.",
  "origins": [
   "KAFKA-9801",
   "GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin"
  ],
  "section": "2.8"
 },
 "3.4 step 2": {
  "text": "An Empty group without offsets and without an open transaction is removed at the next check, even if it never had offsets or has pending member ids. A group with members stays. Since 4.4 so does a streams group with a topology description, until the plugin has deleted that (4.10 rule 35).",
  "origins": [
   "GroupCoordinatorShard.cleanupGroupMetadata"
  ],
  "section": "3.4"
 },
 "4.1 step 1": {
  "text": "The group epoch grows when members, subscriptions or topics change. The assignment epoch is the group epoch of the current target assignment. A member epoch becomes the assignment epoch when the member has revoked all partitions that it must.",
  "origins": [
   "ConsumerGroup.maybeUpdateGroupState"
  ],
  "section": "4.1"
 },
 "4.1 step 2": {
  "text": "The group is Empty without members, Assigning while the group epoch is above the assignment epoch, Reconciling while a member is not at the assignment epoch or not STABLE, and otherwise Stable.",
  "origins": [
   "ConsumerGroup.maybeUpdateGroupState"
  ],
  "section": "4.1"
 },
 "4.1 step 3": {
  "text": "Since 4.3 a changed group is Assigning until its assignment interval has passed and a member sends the next heartbeat (4.10 rules 1 and 2). Before 4.3 the assignor runs within the heartbeat that changed the group, so Assigning is visible only after a member left, until the next heartbeat.",
  "origins": [
   "GroupMetadataManager.updateTargetAssignment"
  ],
  "section": "4.1"
 },
 "4.12 step 10": {
  "text": "Reconciliation is that of section 4.6 with tasks, and member states 1 STABLE, 2 UNREVOKED_TASKS, 3 UNRELEASED_TASKS. An active task is free when no process has it, and this process has it in no other role; a standby when this process has it in no role. Since 4.4 a task changes its role within a member in one step (4.10 rule 18). A second round of revocation is at the member's epoch plus 1.",
  "origins": [
   "CurrentAssignmentBuilder"
  ],
  "section": "4.12"
 },
 "4.12 step 12": {
  "text": "Statuses: 0 STALE_TOPOLOGY, 1 MISSING_SOURCE_TOPICS, 2 INCORRECTLY_PARTITIONED_TOPICS, 3 MISSING_INTERNAL_TOPICS, 4 SHUTDOWN_APPLICATION, 5 ASSIGNMENT_DELAYED by the initial delay, since 4.3 also by the assignment interval, since 4.4 in version 1 6 MISSING_CLIENT_TAGS. SHUTDOWN_APPLICATION is in every answer after a member requested it, until the group is Empty.",
  "origins": [
   "StreamsGroupHeartbeatResponse.Status"
  ],
  "section": "4.12"
 },
 "4.12 step 13": {
  "text": "Epoch -1 removes the member: the group epoch grows, and the answer has member id and epoch. Since 4.4 a static member leaves with -2 and keeps its tasks. A missing group is 69, an unknown member 25. A session or a rebalance timeout that has passed does the same.",
  "origins": [
   "GroupMetadataManager.streamsGroupLeave"
  ],
  "section": "4.12"
 },
 "4.12 step 3": {
  "text": "Epoch 0 creates the group, also in the place of an Empty classic one; another group is 69, as is a missing one at another epoch. A group of group.streams.max.size members lets no client join (81), before 4.4 not even a member of it. An unknown member is 25. The epoch must be the member's, or the one before if the owned tasks are a part of those assigned, else 110. A task that the topology has not is 42. GroupMetadataManager.getOrCreateStreamsGroup, throwIfStreamsGroupIsFull, throwIfStreamsGroupMemberEpochIsInvalid",
  "origins": [
   "GroupMetadataManager.getOrCreateStreamsGroup"
  ],
  "section": "4.12"
 },
 "4.12 step 5": {
  "text": "The topology is configured when topics that it needs may have changed. Source topics that are missing, a co-partitioned set with different numbers of partitions, or an internal topic with a wrong number are in the status. A repartition topic without a number gets the largest number of partitions that a subtopology writing to it reads; a changelog gets the number of tasks of its subtopology, which is the largest number of partitions it reads.",
  "origins": [
   "InternalTopicManager.configureTopics"
  ],
  "section": "4.12"
 },
 "4.12 step 7": {
  "text": "The group epoch grows when a member is new or changes its data, when the hash of the topics has changed, when the topology has become ready or is no longer, and when streams.num.standby.replicas or, since 4.4, the required client tags have changed. The first epoch is 2. While a topology is not ready the state is NotReady and no member has tasks.",
  "origins": [
   "GroupMetadataManager.streamsGroupHeartbeat"
  ],
  "section": "4.12"
 },
 "4.12 step 8": {
  "text": "A member that joins an Empty group starts the initial delay (3 s). Until it ends no member has tasks, at epoch 1 or at the last assignment epoch (of a new group described as 1, before 4.3 as 0), and the status ASSIGNMENT_DELAYED. At its end the target assignment is computed; if no second heartbeat came before, the next one computes it.",
  "origins": [
   "GroupMetadataManager.computeDelayedTargetAssignment"
  ],
  "section": "4.12"
 },
 "4.12 step 9": {
  "text": "The assignor is sticky: an active task stays with its member, or goes to a member with a standby of it, if that member has less than its share; else to the process with the least tasks by member. Standbys, for subtopologies with changelogs alone, go to the member that ran the task, to the one that had it as a standby, or to the process with least load that does not have it. Since 4.4 reported offsets count too (4.10 rule 17).",
  "origins": [
   "StickyTaskAssignor.assign"
  ],
  "section": "4.12"
 },
 "4.13 step 2": {
  "text": "Any other group with that id, an Empty classic one too: 69. An unknown group with an epoch other than 0: 69; an unknown member: 25. A group of group.share.max.size members: 81 for a newcomer.",
  "origins": [
   "GroupMetadataManager.getOrMaybeCreateShareGroup"
  ],
  "section": "4.13"
 },
 "4.13 step 3": {
  "text": "The first heartbeat makes epoch 2, before 4.3 1, and assigns nothing. A partition is assigned once its share state was initialised, which makes the next epoch. A topic that is created later makes one epoch for itself and one for its partitions.",
  "origins": [
   "GroupMetadataManager.initializedAssignmentPending"
  ],
  "section": "4.13"
 },
 "4.13 step 6": {
  "text": "A member that leaves is answered with epoch -1, and the group epoch grows. Its partitions have no member until the next heartbeat of any member, which before 4.3 makes another epoch, but not if each of them has another member too. An Empty share group stays, and stays a share group: JoinGroup is 23 without a member id, ConsumerGroupHeartbeat 69.",
  "origins": [
   "GroupMetadataManager.shareGroupLeave"
  ],
  "section": "4.13"
 },
 "4.3 step 1": {
  "text": "Epoch 0 and no such group: the group is created.",
  "origins": [
   "GroupMetadataManager.getOrMaybeCreateConsumerGroup"
  ],
  "section": "4.3"
 },
 "4.5 step 2": {
  "text": "The group epoch grows by one if the subscription changed, or if a subscribed topic was created, deleted, got partitions or (since 4.1) moved to other racks. Rack, instance id and timeouts do not change it, nor does an unchanged heartbeat; since 4.4 another assignor may (4.10 rule 12), before 4.4 none does.",
  "origins": [
   "GroupMetadataManager.hasMemberSubscriptionChanged",
   "ModernGroup.computeMetadataHash"
  ],
  "section": "4.5"
 },
 "4.5 step 4": {
  "text": "If the group epoch is above the assignment epoch and, since 4.3, the assignment interval has passed, the assignor runs for all members. It is the assignor that most members name (of names with as many members the first in a Java hash map: uniform before range), or else the first of group.consumer.assignors. If it fails, the answer is -1 and nothing is written.",
  "origins": [
   "GroupMetadataManager.updateTargetAssignment",
   "ConsumerGroup.computePreferredServerAssignor"
  ],
  "section": "4.5"
 },
 "4.5 step 7": {
  "text": "The first member of a group gets epoch 2, before 4.3 1, and all partitions. If its topic does not exist it gets the same epoch and no partitions, and the next epoch after the topic was created.",
  "origins": [
   "GroupMetadataManager.consumerGroupHeartbeat"
  ],
  "section": "4.5"
 },
 "4.6 step 2": {
  "text": "Otherwise the epoch becomes the assignment epoch and the assignment is keep and add.",
  "origins": [
   "CurrentAssignmentBuilder.computeNextAssignment",
   "CurrentAssignmentBuilder.updateCurrentAssignment",
   "KIP-848"
  ],
  "section": "4.6"
 },
 "4.6 step 3": {
  "text": "In the case of rule 2 the member is UNRELEASED if partitions are unreleased, else STABLE.",
  "origins": [
   "CurrentAssignmentBuilder.computeNextAssignment",
   "CurrentAssignmentBuilder.updateCurrentAssignment",
   "KIP-848"
  ],
  "section": "4.6"
 },
 "4.6 step 6": {
  "text": "When the session ends (group.consumer.session.timeout.ms, or the setting of the group), the member is removed.",
  "origins": [
   "GroupMetadataManager.scheduleConsumerGroupSessionTimeout"
  ],
  "section": "4.6"
 },
 "4.7 step 1": {
  "text": "Epoch -1: the member is removed, the group epoch grows, and the others get its partitions. The answer has epoch -1. An unknown member is 25, a missing group 69. A static member is removed too, and its instance id is free. Before 4.4 an instance id that it had before this one stays with it: a client that joins with it gets 25; since 4.4 it is free.",
  "origins": [
   "GroupMetadataManager.consumerGroupLeave"
  ],
  "section": "4.7"
 },
 "4.7 step 2": {
  "text": "Epoch -2 of a static member: the member stays with epoch -2 and keeps its partitions. Its session continues; when it ends, partitions and instance id are free.",
  "origins": [
   "GroupMetadataManager.consumerGroupStaticMemberGroupLeave"
  ],
  "section": "4.7"
 }
};
