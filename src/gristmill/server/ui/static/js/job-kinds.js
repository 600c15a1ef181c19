// @ts-check
/** What the kinds of jobs are called. */

/** @type {Record<string, string>} */
export const JOB_KINDS = {
  index_document: "index",
  prepare_root: "list",
  delete_subtree: "delete",
  delete_base: "delete",
  reindex_subtree: "reindex",
  index_title: "title",
  preview_chunks: "preview",
  move_items: "move",
  sync_connector: "sync",
  sync_access: "permissions",
  deliver_events: "deliver",
  analyse_assets: "images",
  check_file_processing_result: "convert",
  export_base: "export",
  import_base: "import",
};
