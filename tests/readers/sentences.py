"""Some sentences in several languages."""

SENTENCES = {
    "zh": "知识库把人们拥有的文件变成可以搜索的知识，并且保持真实。没有丢失，没有卡住。今天天气很好，我们去公园散步吧。",
    "zh-hant": "知識庫把人們擁有的檔案變成可以搜尋的知識，並且保持真實。沒有遺失，沒有卡住。今天天氣很好，我們去散步吧。",
    "ja": "これは日本語の文章です。データベースに保存された文書を検索することができます。東京都の天気は晴れです。",
    "ko": "이것은 한국어 문장입니다. 데이터베이스에 저장된 문서를 검색할 수 있습니다. 오늘 날씨가 좋습니다.",
    "ru": "Это предложение на русском языке. Документы, сохранённые в базе данных, можно искать. Сегодня хорошая погода.",
    "ar": "هذه جملة باللغة العربية. يمكن البحث في المستندات المحفوظة في قاعدة البيانات. الطقس جميل اليوم.",
    "de": "Größe und Maß: Die Übersicht über alle Äpfel lässt sich für jeden Käufer öffnen. Schöne Grüße aus München.",
    "he": "הטוחן טוחן את התבואה כל יום והאופה קונה קמח בשוק בעיר ליד הנהר. היום מזג האוויר נאה מאוד.",
    "pl": "Zażółć gęślą jaźń. Wszystkie dokumenty można przeszukiwać, a źródła są przechowywane w bazie danych.",
    "tr": "Bugün hava çok güzel. Şu anda İstanbul’da yaşıyoruz ve çocuklar dışarıda oynuyor. Görüşmek üzere.",
}
