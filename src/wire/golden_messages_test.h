// The frames of the messages that golden_frames_test.h does not have, written out by hand.
#pragma once

namespace maru::wire {

inline constexpr char kSettleRequestFrame[] = R"(
    0000: 4d 41 52 55 02 00 00 00 1d 00 00 00 00 00 00 00  ; settle, 29 bytes
    0010: 05 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 5, the epoch last seen
    0020: 01                       ; last
    0021: 02 00 00 00              ; two pages
    0025: 00 00 00 00 21 00 00 00 01 00 00 00  ; pool 0, record 0x21, generation 1
    0031: 01 00 00 00 02 01 00 00 03 00 00 00  ; pool 1, record 0x0102, generation 3
    003d:)";

inline constexpr char kSettleReplyFrame[] = R"(
    0000: 4d 41 52 55 02 80 00 00 0e 00 00 00 00 00 00 00  ; settle reply, 14 bytes
    0010: 05 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 02 00 00 00              ; two items
    0024: 01 02 00 00 00           ; verdict: kept, generation 2
    0029: 03 00 00 00 00           ; verdict: gone, generation 0
    002e:)";

inline constexpr char kGiveBackRequestFrame[] = R"(
    0000: 4d 41 52 55 05 00 00 00 10 00 00 00 00 00 00 00  ; give-back, 16 bytes
    0010: 06 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 6
    0020: 01 00 00 00              ; one page
    0024: 00 00 00 00 21 00 00 00 01 00 00 00  ; pool 0, record 0x21, generation 1
    0030:)";

inline constexpr char kGiveBackReplyFrame[] = R"(
    0000: 4d 41 52 55 05 80 00 00 04 00 00 00 00 00 00 00  ; give-back reply, 4 bytes
    0010: 06 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 01 00 00 00              ; returned
    0024:)";

inline constexpr char kFreeRequestFrame[] = R"(
    0000: 4d 41 52 55 06 00 00 00 0c 00 00 00 00 00 00 00  ; free, 12 bytes
    0010: 07 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 7
    0020: 01 00 00 00 02 01 00 00 03 00 00 00  ; pool 1, record 0x0102, generation 3
    002c:)";

inline constexpr char kFreeReplyFrame[] = R"(
    0000: 4d 41 52 55 06 80 00 00 01 00 00 00 00 00 00 00  ; free reply, 1 byte
    0010: 07 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 02                       ; outcome: pinned
    0021:)";

inline constexpr char kResolveRequestFrame[] = R"(
    0000: 4d 41 52 55 07 00 00 00 1c 00 00 00 00 00 00 00  ; resolve, 28 bytes
    0010: 08 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 8
    0020: 02 00 00 00              ; two pages
    0024: 00 00 00 00 21 00 00 00 01 00 00 00  ; pool 0, record 0x21, generation 1
    0030: 01 00 00 00 02 01 00 00 03 00 00 00  ; pool 1, record 0x0102, generation 3
    003c:)";

inline constexpr char kResolveReplyFrame[] = R"(
    0000: 4d 41 52 55 07 80 00 00 06 00 00 00 00 00 00 00  ; resolve reply, 6 bytes
    0010: 08 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 02 00 00 00              ; two answers
    0024: 01 00                    ; lives, does not
    0026:)";

inline constexpr char kFindRequestFrame[] = R"(
    0000: 4d 41 52 55 08 00 00 00 1e 00 00 00 00 00 00 00  ; find, 30 bytes
    0010: 09 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 9
    0020: 02 00 00 00              ; two keys
    0024: 0b 00 00 00 68 65 6c 6c 6f 20 77 6f 72 6c 64  ; "hello world"
    0033: 07 00 00 00 6d 69 73 73 69 6e 67  ; "missing"
    003e:)";

inline constexpr char kFindReplyFrame[] = R"(
    0000: 4d 41 52 55 08 80 00 00 1e 00 00 00 00 00 00 00  ; find reply, 30 bytes
    0010: 09 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 02 00 00 00              ; two items
    0024: 01                       ; found
    0025: 00 00 00 00 21 00 00 00 01 00 00 00  ; pool 0, record 0x21, generation 1
    0031: 00                       ; not found
    0032: 00 00 00 00 00 00 00 00 00 00 00 00  ; no page
    003e:)";

inline constexpr char kDeleteRequestFrame[] = R"(
    0000: 4d 41 52 55 09 00 00 00 1e 00 00 00 00 00 00 00  ; delete, 30 bytes
    0010: 0a 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 10
    0020: 02 00 00 00              ; two keys
    0024: 0b 00 00 00 68 65 6c 6c 6f 20 77 6f 72 6c 64  ; "hello world"
    0033: 07 00 00 00 6d 69 73 73 69 6e 67  ; "missing"
    003e:)";

inline constexpr char kDeleteReplyFrame[] = R"(
    0000: 4d 41 52 55 09 80 00 00 06 00 00 00 00 00 00 00  ; delete reply, 6 bytes
    0010: 0a 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 02 00 00 00              ; two outcomes
    0024: 01 02                    ; deleted, missing
    0026:)";

inline constexpr char kGrowLeasesRequestFrame[] = R"(
    0000: 4d 41 52 55 0a 00 00 00 08 00 00 00 00 00 00 00  ; grow-leases, 8 bytes
    0010: 0b 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 11
    0020: 01 00 00 00              ; pool
    0024: 02 00 00 00              ; blocks
    0028:)";

inline constexpr char kGrowLeasesReplyFrame[] = R"(
    0000: 4d 41 52 55 0a 80 00 00 0c 00 00 00 00 00 00 00  ; grow-leases reply, 12 bytes
    0010: 0b 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 02 00 00 00              ; two offsets
    0024: 81 00 00 00 82 00 00 00  ; at 0x408000 and 0x410000
    002c:)";

inline constexpr char kPingRequestFrame[] = R"(
    0000: 4d 41 52 55 0b 00 00 00 00 00 00 00 00 00 00 00  ; ping, no bytes
    0010: 0c 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 12
    0020:)";

inline constexpr char kPingReplyFrame[] = R"(
    0000: 4d 41 52 55 0b 80 00 00 08 00 00 00 00 00 00 00  ; ping reply, 8 bytes
    0010: 0c 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 90 5f 01 00 00 00 00 00  ; uptime_ms: 90,000
    0028:)";

inline constexpr char kInspectRequestFrame[] = R"(
    0000: 4d 41 52 55 0c 00 00 00 09 00 00 00 00 00 00 00  ; inspect, 9 bytes
    0010: 0d 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 13
    0020: 02                       ; topic: clients
    0021: 02 00 09 00 00 00 00 00  ; cursor
    0029:)";

inline constexpr char kInspectReplyFrame[] = R"(
    0000: 4d 41 52 55 0c 80 00 00 0e 00 00 00 00 00 00 00  ; inspect reply, 14 bytes
    0010: 0d 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 00 00 00 00 00 00 00 00  ; next_cursor: the end
    0028: 02 00 00 00 5b 5d        ; json: []
    002e:)";

inline constexpr char kListRequestFrame[] = R"(
    0000: 4d 41 52 55 0d 00 00 00 13 00 00 00 00 00 00 00  ; list, 19 bytes
    0010: 0e 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 14
    0020: 00 00 00 00 00 00 00 00  ; cursor
    0028: 00 01 00 00              ; count_max: 256
    002c: 03 00 00 00 68 65 6c     ; prefix: "hel"
    0033:)";

inline constexpr char kListReplyFrame[] = R"(
    0000: 4d 41 52 55 0d 80 00 00 2f 00 00 00 00 00 00 00  ; list reply, 47 bytes
    0010: 0e 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 22 00 00 00 00 00 00 00  ; next_cursor
    0028: 01 00 00 00              ; one item
    002c: 00 00 00 00 21 00 00 00 01 00 00 00  ; pool 0, record 0x21, generation 1
    0038: 00 00 0c 00 00 00 00 00  ; length_bytes: 768 KiB
    0040: 0b 00 00 00 68 65 6c 6c 6f 20 77 6f 72 6c 64  ; "hello world"
    004f:)";

inline constexpr char kAuditRequestFrame[] = R"(
    0000: 4d 41 52 55 0e 00 00 00 09 00 00 00 00 00 00 00  ; audit, 9 bytes
    0010: 0f 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 15
    0020: 01                       ; verify_bytes
    0021: 00 00 00 00 00 00 00 00  ; audit: begin one
    0029:)";

inline constexpr char kAuditReplyFrame[] = R"(
    0000: 4d 41 52 55 0e 80 00 00 1f 00 00 00 00 00 00 00  ; audit reply, 31 bytes
    0010: 0f 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 00 00 00 00 00 00 00 00  ; audit: it is done
    0028: 07 00 00 00 00 00 00 00  ; work_done
    0030: 09 00 00 00 00 00 00 00  ; work_in_all
    0038: 01                       ; clean
    0039: 02 00 00 00 7b 7d        ; json: {}
    003f:)";

inline constexpr char kUnpinRequestFrame[] = R"(
    0000: 4d 41 52 55 0f 00 00 00 1e 00 00 00 00 00 00 00  ; unpin, 30 bytes
    0010: 10 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 16
    0020: 02 00 00 00              ; two keys
    0024: 0b 00 00 00 68 65 6c 6c 6f 20 77 6f 72 6c 64  ; "hello world"
    0033: 07 00 00 00 6d 69 73 73 69 6e 67  ; "missing"
    003e:)";

inline constexpr char kUnpinReplyFrame[] = R"(
    0000: 4d 41 52 55 0f 80 00 00 06 00 00 00 00 00 00 00  ; unpin reply, 6 bytes
    0010: 10 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 02 00 00 00              ; two answers
    0024: 01 00                    ; unpinned, not
    0026:)";

inline constexpr char kReleaseRequestFrame[] = R"(
    0000: 4d 41 52 55 10 00 00 00 12 00 00 00 00 00 00 00  ; release, 18 bytes
    0010: 11 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11  ; request 17
    0020: 02                       ; mode: release
    0021: 00 00 00 00              ; from_region: the first
    0025: 00 00 00 00              ; region: all
    0029: 05 00 00 00 64 65 63 2d 30  ; instance_id: "dec-0"
    0032:)";

inline constexpr char kReleaseReplyFrame[] = R"(
    0000: 4d 41 52 55 10 80 00 00 52 00 00 00 00 00 00 00  ; release reply, 82 bytes
    0010: 11 00 00 00 00 00 00 00 88 77 66 55 44 33 22 11
    0020: 00 00 00 00              ; next_region: these were all
    0024: 02 00 00 00              ; two items
    0028: 04 00 50 00              ; region 0x500004
    002c: 00 00 40 00 00 00 00 00  ; length_bytes: 4 MiB
    0034: 03 00 00 00 00 00 00 00  ; keys
    003c: 00 00 00 00 00 00 00 00  ; condemned
    0044: 60 ea 00 00 00 00 00 00  ; hold_ms: a minute
    004c: 01                       ; verdict: released
    004d: 05 00 50 00              ; region 0x500005
    0051: 00 00 20 00 00 00 00 00  ; length_bytes: 2 MiB
    0059: 00 00 00 00 00 00 00 00  ; keys
    0061: 01 00 00 00 00 00 00 00  ; condemned
    0069: 00 00 00 00 00 00 00 00  ; hold_ms: none
    0071: 02                       ; verdict: leased
    0072:)";

}  // namespace maru::wire
